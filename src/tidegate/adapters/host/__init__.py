"""Control and observation of a host: CPU and memory limits by control groups, and probes of saturation.

In: process ids, shares and limits.
Out: samples of a host, and limits that are in force.
Never touches: processes and control groups of others.
"""
