"""Streaming jobs to run, watch and measure: ordinary PySpark queries."""
