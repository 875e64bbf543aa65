"""The Kafka source that workloads share: a topic with one partition, so that row i is the record at offset i."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.adapters.spark.settings import Settings


@dataclass(frozen=True, slots=True)
class Topic:
    """The options of a plain Kafka query. Another process produces the rows."""

    address: str
    name: str

    def frame(self, spark: SparkSession, settings: Settings) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.address, "subscribe": self.name, "startingOffsets": "earliest"}
        rows = spark.readStream.format("kafka").options(**options).load()
        return rows.select(
            F.col("offset").alias("index"), F.col("timestamp").alias("event_time"), F.col("value").cast("string")
        )
