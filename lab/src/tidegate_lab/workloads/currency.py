"""Nexmark's query 1 as a job whose output shows every row: the prices of bids in another currency, written to files.

Before that, a keyed hash of every row is computed (`rounds`), or the row waits for a look-up (`lookup_s`). Hashing
takes CPU, so it shows what executors with a CPU quota can do. Waiting takes a slot but no CPU, so more executors add
capacity even where they get no more CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.settings import Settings
from tidegate.load import LoadProfile
from tidegate.load.nexmark import AUCTIONS, EPOCH, PERSONS
from tidegate_lab.workloads import nexmark
from tidegate_lab.workloads.replay_source import Replay
from tidegate_lab.workloads.wordcount import RowCheck, looked_up

_CONTENT = '{"kind": "nexmark", "events_per_s": 1000}'
"""One event per millisecond of event time, so the time of a bid in milliseconds is its row's index."""


@dataclass(frozen=True, slots=True)
class Currency:
    """The recipe of the query; pass `build` to `gate.start`."""

    load: LoadProfile
    output: str
    rows: int | None = None
    """The load ends after this many rows."""
    start_ms: int | None = None
    rounds: int = 0
    lookup_s: float = 0.0
    tasks: int = 12
    trigger_s: float = 2.0

    def build(self, spark: SparkSession, settings: Settings) -> DataStreamWriter:
        lines = Replay(self.load, _CONTENT, self.rows, self.start_ms, self.tasks).frame(spark, settings)
        if self.rounds:
            lines = hashed(lines, self.rounds)
        if self.lookup_s:
            lines = looked_up(lines, self.lookup_s)
        return (
            nexmark.q1(nexmark.parse(lines))
            .writeStream.format("parquet")
            .option("path", self.output)
            .trigger(**settings.trigger(self.trigger_s))
            .option("checkpointLocation", settings.checkpoint)
        )


def hashed(rows: DataFrame, rounds: int) -> DataFrame:
    """Compute a keyed hash of every row, as a check of its signature would."""

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column("value").to_pylist():
                hashlib.pbkdf2_hmac("sha256", value.encode(), b"tidegate", rounds)
            yield batch

    return rows.mapInArrow(check, rows.schema)


def check_output(spark: SparkSession, output: str, rows: int) -> RowCheck:
    """Compare the committed files with the bids among the first `rows` rows. The files are read here, in the driver."""
    found = np.concatenate([np.zeros(0, dtype=np.int64), *(_indices(file) for file in _committed(spark, output))])
    return check_bids(found, rows)


def check_bids(found: np.ndarray[tuple[int], np.dtype[np.int64]], rows: int) -> RowCheck:
    """
    >>> check_bids(np.array([4, 5, 5, 7]), rows=8)  # rows 0 to 3 are a person and auctions
    RowCheck(rows_out=4, rows_lost=1, rows_doubled=1)
    """
    due = np.arange(rows) % EPOCH >= PERSONS + AUCTIONS
    times = np.bincount(found, minlength=rows)
    due = np.concatenate([due, np.zeros(len(times) - rows, dtype=bool)])  # what should not be there at all is doubled
    return RowCheck(len(found), int((due & (times == 0)).sum()), int(np.maximum(times - due, 0).sum()))


def _committed(spark: SparkSession, output: str) -> list[str]:
    """The files that the sink has committed: a batch that was cut off may have left others."""
    return [unquote(urlparse(file).path) for file in spark.read.parquet(output).inputFiles()]


def _indices(file: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The query divides milliseconds by 1000, so a time may be a microsecond too early."""
    times = pq.read_table(file, columns=["time"]).column("time").cast(pa.timestamp("us", tz="UTC"), safe=False)
    return np.asarray((times.cast(pa.int64()).to_numpy() + 500) // 1000, dtype=np.int64)
