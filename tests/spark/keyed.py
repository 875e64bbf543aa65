"""A count in which a key is touched by one batch or two and never again, so that state which goes missing is missed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.settings import Settings

ROWS_PER_KEY = 10
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def keyed_count(
    rate: int = 300, refused: Callable[[Settings], bool] = lambda settings: False
) -> Callable[[SparkSession, Settings], DataStreamWriter]:
    """A build; it does not start with settings that are `refused`."""

    def build(spark: SparkSession, settings: Settings) -> DataStreamWriter:
        if refused(settings):
            raise RuntimeError(f"refused: {dict(settings.tasks)}")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set(CHANGELOG, "true")
        rows = spark.readStream.format("tidegate").option("load", str(rate)).option("gate", settings.gate).load()
        counted = rows.groupBy((F.col("index") / ROWS_PER_KEY).cast("long").alias("key")).agg(
            F.count(F.lit(1)).alias("rows"), F.sum("index").alias("indices")
        )
        writer = (
            counted.writeStream.outputMode("update").format("noop").option("checkpointLocation", settings.checkpoint)
        )
        return writer.trigger(**settings.trigger(0.5))

    return build


def keyed_check(spark: SparkSession, checkpoint: str) -> tuple[int, int, int]:
    """Rows that were committed, and how many of them the state has lost or counted twice."""
    committed = Checkpoint(spark, checkpoint).position().committed
    rows = int(json.loads((Path(checkpoint) / f"offsets/{committed}").read_text().splitlines()[-1])["row"])
    state = spark.read.format("statestore").load(checkpoint).select("key", "value").collect()
    found = {row.key[0]: (int(row.value[0]), int(row.value[1])) for row in state}
    lost = doubled = 0
    for key in range(-(-rows // ROWS_PER_KEY)):
        due = range(key * ROWS_PER_KEY, min(rows, (key + 1) * ROWS_PER_KEY))
        got, indices = found.pop(key, (0, 0))
        lost += max(0, len(due) - got)
        doubled += max(0, got - len(due)) + (got == len(due) and indices != sum(due))
    return rows, lost, doubled + sum(got for got, _ in found.values())
