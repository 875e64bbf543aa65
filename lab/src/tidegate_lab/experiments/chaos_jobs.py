"""The jobs of the chaos run, as a user would write them: a count by key, and ids that must come out once.

Both keep state, read the same topic and write to a transactional sink. The count has a Python function in it, so that
there are Python workers to kill.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.settings import Settings
from tidegate_lab.experiments.chaos_sink import Sink

Build = Callable[[SparkSession, Settings], DataStreamWriter]
PARTITIONS = 4
TRIGGER_S = 1.0
CHANGELOG = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}


def count_job(address: str, topic: str, sink: Path, run: int) -> Build:
    """Rows by key; the sink has the newest count of each."""

    def build(spark: SparkSession, settings: Settings) -> DataStreamWriter:
        counted = _rows(spark, address, topic).groupBy(_looked_up(F.col("key")).alias("key")).count()

        def write(frame: DataFrame, batch: int) -> None:
            rows = [(row["key"], row["count"]) for row in frame.collect()]
            Sink(sink).put_counts(batch, run or settings.epoch, rows, settings.check_epoch)

        return _writer(counted, settings).outputMode("update").foreachBatch(write)

    return build


def unique_job(address: str, topic: str, sink: Path, run: int) -> Build:
    """Every id once, although the topic has some of them twice."""

    def build(spark: SparkSession, settings: Settings) -> DataStreamWriter:
        ids = _rows(spark, address, topic).select(F.col("value").cast("long").alias("id")).dropDuplicates(["id"])

        def write(frame: DataFrame, batch: int) -> None:
            rows = [row["id"] for row in frame.collect()]
            Sink(sink).put_ids(batch, run or settings.epoch, rows, settings.check_epoch)

        return _writer(ids, settings).outputMode("append").foreachBatch(write)

    return build


def fleet_job(spark: SparkSession, settings: Settings, *, address: str, topic: str, sink: str) -> DataStreamWriter:
    """The count, as an application of a fleet: its runs are numbered by the epochs of its lease."""
    return count_job(address, topic, Path(sink), run=0)(spark, settings)


def _rows(spark: SparkSession, address: str, topic: str) -> DataFrame:
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**options).load()
    return rows.select(F.col("key").cast("string"), F.col("value").cast("string"))


def _looked_up(key: Column) -> Column:
    return F.udf(lambda text: text, "string")(key)


def _writer(frame: DataFrame, settings: Settings) -> DataStreamWriter:
    return frame.writeStream.option("checkpointLocation", settings.checkpoint).trigger(**settings.trigger(TRIGGER_S))
