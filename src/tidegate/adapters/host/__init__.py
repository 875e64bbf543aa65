"""A host's own knobs and senses: CPU and memory by control groups, and probes of saturation."""
