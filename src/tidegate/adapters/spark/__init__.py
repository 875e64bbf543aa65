"""The Spark adapter: all code that uses pyspark."""
