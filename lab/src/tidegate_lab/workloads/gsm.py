"""Grep, sort and MD5 over random text (GSM): three stateless, CPU-bound queries.

`rounds` scales the work per row to the machine: each line is processed this many times. All work is done by Spark's own
functions, so it costs CPU and not just time in a slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.settings import Settings
from tidegate.load import LoadProfile
from tidegate_lab.workloads.replay_source import Replay
from tidegate_lab.workloads.topic import Topic

GsmStep = Literal["grep", "sort", "md5"]
PATTERN = "(ab|cd)[a-m]+e"
CONTENT = "random-text"


@dataclass(frozen=True, slots=True)
class Gsm:
    """The recipe of one query; pass `build` to `gate.start`."""

    step: GsmStep
    load: LoadProfile
    rows: int | None = None
    start_ms: int | None = None
    rounds: int = 1
    source_tasks: int = 2
    trigger_s: float = 5.0
    topic: Topic | None = None
    """The Kafka topic to read instead of generating the load."""

    def build(self, spark: SparkSession, settings: Settings) -> DataStreamWriter:
        source = self.topic or Replay(self.load, CONTENT, self.rows, self.start_ms, self.source_tasks)
        worked = STEPS[self.step](source.frame(spark, settings), self.rounds)
        return (
            worked.writeStream.outputMode("append")
            .format("noop")
            .trigger(**settings.trigger(self.trigger_s))
            .option("checkpointLocation", settings.checkpoint)
        )


def grep(rows: DataFrame, rounds: int = 1) -> DataFrame:
    """Return rows with a matching word, and the number of matches in `rounds` passes over the line."""
    found = F.regexp_count(_read_over(rounds), F.lit(PATTERN))
    return rows.select("index", "event_time", found.alias("matches")).where("matches > 0")


def sort(rows: DataFrame, rounds: int = 1) -> DataFrame:
    """Return the sorted words of `rounds` passes over the line."""
    words = F.sort_array(F.split(_read_over(rounds), " "))
    return rows.select("index", "event_time", words.alias("words"))


def md5(rows: DataFrame, rounds: int = 1) -> DataFrame:
    """Return the MD5 digest of the line, applied `rounds` times."""
    return rows.select("index", "event_time", stretched(F.col("value"), rounds).alias("digest"))


def stretched(text: Column, rounds: int) -> Column:
    """Apply MD5 `rounds` times, each time to the previous digest."""
    return F.aggregate(F.sequence(F.lit(1), F.lit(rounds)), text, lambda digest, _: F.md5(digest))


STEPS = {"grep": grep, "sort": sort, "md5": md5}


def _read_over(rounds: int) -> Column:
    return F.rtrim(F.repeat(F.concat("value", F.lit(" ")), rounds))
