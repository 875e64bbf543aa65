"""The Spark side: everything that knows pyspark lives here."""
