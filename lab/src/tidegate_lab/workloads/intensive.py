"""Variants of WordCount that are bound by CPU, memory or network instead of a waiting look-up.

Each is source → one costly operator → stateful count. They read the same lines through the same gate. The cost is per
row, so twice the rows need twice the resource.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.adapters.spark.topology import Topology
from tidegate_lab.workloads.wordcount import WordCount

_KEYS = 64


@dataclass(frozen=True, slots=True)
class CpuIntensive(WordCount):
    """Hashes every line many times, as for storing a password."""

    rounds: int = 120
    """About 80 µs of CPU per row."""

    def _flow(self, lines: Topology) -> Topology:
        return lines.operator(
            "digest", lambda rows: digested(rows, self.rounds), parallelism=self.lookup_tasks
        ).stateful("count", lambda rows: _by_key(rows, F.hex(F.substring("digest", 1, 1))))


@dataclass(frozen=True, slots=True)
class MemoryIntensive(WordCount):
    """Reads many places of a table too large for CPU caches for every line, and adds a row of state."""

    table_bytes: int = 64 * 2**20
    reads: int = 4096
    """Scattered reads per row."""
    state_keys: int = 20_000

    def _flow(self, lines: Topology) -> Topology:
        return lines.operator(
            "gather", lambda rows: gathered(rows, self.table_bytes, self.reads), parallelism=self.lookup_tasks
        ).stateful("count", lambda rows: _by_key(rows, F.col("index") % self.state_keys))


@dataclass(frozen=True, slots=True)
class NetworkIntensive(WordCount):
    """Sends an incompressible payload for every line through two exchanges. With one executor both are local."""

    payload_bytes: int = 4096

    def _flow(self, lines: Topology) -> Topology:
        return (
            lines.operator("widen", lambda rows: widened(rows, self.payload_bytes), parallelism=self.lookup_tasks)
            .operator("relay", lambda rows: rows, parallelism=self.lookup_tasks, key="index")
            .stateful("count", lambda rows: _by_key(rows, F.crc32("payload") % _KEYS))
        )


def digested(rows: DataFrame, rounds: int) -> DataFrame:
    """Return each row with a key derived from its text by this many rounds of HMAC."""

    def digest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = batch.column("value").to_pylist()
            found = [hashlib.pbkdf2_hmac("sha256", text.encode(), b"tidegate", rounds) for text in texts]
            yield pa.RecordBatch.from_arrays([batch.column("index"), pa.array(found, pa.binary())], ["index", "digest"])

    return rows.mapInArrow(digest, "index bigint, digest binary")


def gathered(rows: DataFrame, table_bytes: int, reads: int) -> DataFrame:
    """Return each row with the sum of `reads` entries of a large table, selected by its index."""

    def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = _table(table_bytes)
        for batch in batches:
            indices = batch.column("index").to_numpy()
            found = np.array([_scattered_sum(table, int(index), reads) for index in indices], dtype=np.float64)
            yield pa.RecordBatch.from_arrays([batch.column("index"), pa.array(found)], ["index", "gathered"])

    return rows.mapInArrow(gather, "index bigint, gathered double")


def widened(rows: DataFrame, payload_bytes: int) -> DataFrame:
    """Return each row with random bytes that a shuffle can neither compress nor share."""

    def widen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            first = int(batch.column("index")[0].as_py()) if batch.num_rows else 0
            noise = np.random.default_rng(first).bytes(payload_bytes * batch.num_rows)
            found = [noise[at : at + payload_bytes] for at in range(0, len(noise), payload_bytes)]
            yield pa.RecordBatch.from_arrays(
                [batch.column("index"), pa.array(found, pa.binary())], ["index", "payload"]
            )

    return rows.mapInArrow(widen, "index bigint, payload binary")


def _by_key(rows: DataFrame, key: Column) -> DataFrame:
    """Count rows by key. The sum of their indices reveals lost or doubled rows."""
    return rows.groupBy(key.alias("key")).agg(F.count(F.lit(1)).alias("rows"), F.sum("index").alias("indices"))


def _scattered_sum(table: npt.NDArray[np.float64], index: int, reads: int) -> float:
    """Strides by a large prime visit the whole table, a cache line at a time."""
    places = (np.arange(reads, dtype=np.int64) * 1_000_003 + index * 7_919) % len(table)
    return float(table[places].sum())


@lru_cache(maxsize=1)
def _table(size_bytes: int) -> npt.NDArray[np.float64]:
    """Return the table, created once per Python worker."""
    return np.arange(size_bytes // 8, dtype=np.float64)
