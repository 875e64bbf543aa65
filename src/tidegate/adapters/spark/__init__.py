"""The Spark adapter: all code that uses pyspark.

In: a `SparkSession` with its queries, and targets.
Out: observations, receipts, and changes to executors, sources, state and queries.
Never touches: decisions: it observes and carries out.
"""
