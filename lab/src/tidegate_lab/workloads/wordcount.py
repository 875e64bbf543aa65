"""WordCount with a look-up: source → lookup → count, or source → split → count, with a check for lost rows.

The look-up waits, as a call to a remote service would. It occupies a slot but no CPU, so more executors add real
capacity even with few CPUs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.topology import Topology
from tidegate.load import Content, LoadProfile, Sentences
from tidegate.load.profile import profile_to_json


@dataclass(frozen=True, slots=True)
class WordCount:
    """The recipe of the query; pass `build` to `gate.start`."""

    load: LoadProfile
    rows: int | None = None
    """The load ends after this many rows."""
    start_ms: int | None = None
    lookup_s: float = 0.0025
    source_tasks: int = 1
    lookup_tasks: int = 12
    count_tasks: int = 2
    trigger_s: float = 1.0
    rows_per_trigger: int | None = None

    def build(self, spark: SparkSession, settings: Settings) -> DataStreamWriter:
        spark.conf.set("spark.sql.shuffle.partitions", str(self.count_tasks))
        lines = Topology.source("lines", self._lines(spark, settings), event_time="event_time", settings=settings)
        return (
            self._flow(lines)
            .frame.writeStream.outputMode("update")
            .format("noop")
            .trigger(**settings.trigger(self.trigger_s))
            .option("checkpointLocation", settings.checkpoint)
        )

    def _flow(self, lines: Topology) -> Topology:
        return lines.operator(
            "lookup", lambda rows: looked_up(rows, self.lookup_s), parallelism=self.lookup_tasks
        ).stateful("count", lambda rows: counted(words_of(rows)))

    def _lines(self, spark: SparkSession, settings: Settings) -> DataFrame:
        options = {
            "load": profile_to_json(self.load),
            "partitions": settings.parallelism("lines", self.source_tasks),
            "gate": settings.gate,
            "rows": self.rows,
            "start_ms": self.start_ms,
            "rows_per_trigger": self.rows_per_trigger,
        }
        given = {name: str(value) for name, value in options.items() if value is not None}
        return spark.readStream.format("tidegate").options(**given).load()


class SplitCount(WordCount):
    """The WordCount of the papers: the look-up is part of the split, and the count receives single words."""

    def _flow(self, lines: Topology) -> Topology:
        return lines.operator(
            "split", lambda rows: words_of(looked_up(rows, self.lookup_s)), parallelism=self.lookup_tasks
        ).stateful("count", counted)


def looked_up(rows: DataFrame, lookup_s: float) -> DataFrame:
    """Delay every row by `lookup_s`, like a call to a service."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(lookup_s * batch.num_rows)
            yield batch

    return rows.mapInArrow(wait, rows.schema)


def words_of(rows: DataFrame) -> DataFrame:
    """Return one row for every word, with the index of its sentence."""
    return rows.select("index", F.posexplode(F.split("value", " ")).alias("position", "word"))


def counted(words: DataFrame) -> DataFrame:
    """Count words. The first word of every sentence also counts its row and sums the rows' indices."""
    first = F.col("position") == 0
    return words.groupBy("word").agg(
        F.count(F.lit(1)).alias("words"),
        F.count_if(first).alias("rows"),
        F.sum(F.when(first, F.col("index")).otherwise(0)).alias("indices"),
    )


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Committed, lost and doubled rows according to the state."""

    rows_out: int
    rows_lost: int
    rows_doubled: int


Counts = dict[str, tuple[int, int, int]]
"""Word → (occurrences, rows that begin with it, sum of those rows' indices)."""


def state_counts(spark: SparkSession, checkpoint: str) -> Counts:
    """Read the committed state of a stopped query from its checkpoint."""
    state = spark.read.format("statestore").load(checkpoint)
    # By position: the columns of an aggregation's state are named after the functions, and two are counts.
    rows = state.select("key", "value").collect()
    return {row.key[0]: (int(row.value[0]), int(row.value[1]), int(row.value[2])) for row in rows}


def expected_counts(rows: int, content: Content | None = None) -> Counts:
    """Compute the counts of the first `rows` rows without Spark."""
    words: dict[str, list[int]] = {}
    texts = (content or Sentences()).texts(0, rows)
    for index, text in enumerate(texts):
        for position, word in enumerate(text.split(" ")):
            entry = words.setdefault(word, [0, 0, 0])
            entry[0] += 1
            if position == 0:
                entry[1] += 1
                entry[2] += index
    return {word: (entry[0], entry[1], entry[2]) for word, entry in words.items()}


def check_rows(found: Counts, expected: Counts) -> RowCheck:
    """Compare word by word. A word whose counts agree but whose indices do not has both lost and doubled a row.

    >>> check_rows({"a": (2, 1, 0)}, {"a": (2, 1, 0)})
    RowCheck(rows_out=1, rows_lost=0, rows_doubled=0)
    >>> check_rows({"a": (3, 2, 0)}, {"a": (2, 1, 0), "b": (1, 1, 1)})
    RowCheck(rows_out=2, rows_lost=1, rows_doubled=1)
    """
    lost = doubled = 0
    none = (0, 0, 0)
    for word in found.keys() | expected.keys():
        got, due = np.array(found.get(word, none)), np.array(expected.get(word, none))
        if (got == due).all():
            continue
        difference = int(got[1] - due[1])
        missing, extra = max(0, -difference), max(0, difference)
        if missing == extra == 0:  # the same number, but different rows or words
            missing = extra = 1
        lost, doubled = lost + missing, doubled + extra
    return RowCheck(sum(rows for _, rows, _ in found.values()), lost, doubled)
