"""Control and observation of a host: CPU and memory limits by control groups, and probes of saturation."""
