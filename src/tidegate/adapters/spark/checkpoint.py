"""A query's checkpoint: planned and committed batches, the number of state partitions, and how to roll back.

Spark numbers state by version: batch N reads version N and writes version N + 1. A repartition is a separate batch that
writes a full snapshot of every partition. A snapshot takes precedence over the changelogs of its version. A leftover
snapshot would therefore replace what the query writes later under the same number, so a rollback must also remove
state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidegate.adapters.spark.hadoopfiles import HadoopFiles

_PARTITIONS = "spark.sql.shuffle.partitions"
_STORES = ("state/*/*", "state/*/*/*")  # operator/partition; joins have named stores below that
_BACKED_UP_BATCHES = 3  # a query starts from its newest batch; copying a hundred small files would add seconds of pause


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a query."""

    planned: int
    """The newest batch in the offset log; −1 before the first."""
    committed: int

    @property
    def clean(self) -> bool:
        """Was it stopped between two batches?"""
        return self.planned == self.committed


class Checkpoint:
    """The checkpoint at `path`. Tidegate keeps its own files beside it, in `path`.tidegate."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self._files = HadoopFiles(spark, self.path)
        self.beside = HadoopFiles(spark, self.path + ".tidegate")

    def position(self) -> Position:
        return Position(self._newest("offsets"), self._newest("commits"))

    def state_partitions(self, batch: int | None = None) -> int | None:
        """State partitions as of a batch, by default the newest; None before the first batch."""
        chosen = self._newest("offsets") if batch is None else batch
        text = self._files.read(f"offsets/{chosen}") if chosen >= 0 else None
        if text is None:
            return None
        for line in text.splitlines()[1:]:  # the first line is the log's version, the second the batch's metadata
            try:
                found = json.loads(line)["conf"][_PARTITIONS]
            except (ValueError, KeyError, TypeError):
                continue
            return int(found)
        return None

    def back_up(self) -> None:
        """Copy the files that define the query's position: its metadata, and the newest offsets and commits."""
        self.beside.delete("backup")
        newest = self._newest("offsets")
        batches = range(max(0, newest + 1 - _BACKED_UP_BATCHES), newest + 1)
        for name in ("metadata", *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in batches)):
            if self._files.exists(name):
                self._files.copy(name, f"{self.path}.tidegate/backup/{name}")

    def drop_after(self, batch: int) -> None:
        """Remove every batch after `batch`, with the state that it wrote.

        Newest first, so that a kill never leaves a gap in a log. The offsets are removed last. While they exist, an
        interrupted removal can be detected and finished, and Spark refuses to start from what is left.
        """
        position = self.position()
        newest = max(position.planned, position.committed, batch + 1)
        self._drop_log("commits", batch, newest)
        self._drop_state(batch, newest)
        self._drop_log("offsets", batch, newest)

    def _drop_log(self, log: str, batch: int, newest: int) -> None:
        for later in range(newest, batch, -1):
            self._files.delete(f"{log}/{later}")

    def _drop_state(self, batch: int, newest: int) -> None:
        """Remove what the batches after `batch` up to `newest` wrote, for all operators, partitions and stores."""
        for later in range(newest, batch, -1):
            version = later + 1
            for pattern in (f"state/*/_metadata/*/{later}", *(f"{store}/{version}[._]*" for store in _STORES)):
                for name in self._files.matching(pattern):
                    self._files.delete(name)
        partitions = self.state_partitions(batch)
        if partitions is None:
            return
        for folder in self._files.matching("state/*/[0-9]*"):
            number = folder.rsplit("/", 1)[-1]
            if number.isdigit() and int(number) >= partitions and not self._has_versions(folder):
                self._files.delete(folder)

    def _has_versions(self, folder: str) -> bool:
        """Does a partition hold state, perhaps from a time with more partitions?"""
        return any(self._files.matching(f"{folder}/{depth}[0-9]*.{{zip,changelog}}") for depth in ("", "*/"))

    def _newest(self, log: str) -> int:
        return max((int(name) for name in self._files.names(log) if name.isdigit()), default=-1)
