"""Tidegate's laboratory: demonstrations, workloads, rivals and the papers' experiments, built on `tidegate`."""

__version__ = "0.2.0"
