"""Streaming jobs for demonstrations and experiments: ordinary PySpark queries."""
