"""A query's checkpoint: which batches are planned and which committed, how many partitions its state has, and how to
go back to where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidegate.spark.files import Files

_PARTITIONS = "spark.sql.shuffle.partitions"
_BACKED_UP_BATCHES = 3  # a query starts from its newest; a hundred small files would lengthen the pause by seconds


@dataclass(frozen=True, slots=True)
class Position:
    """Where a query stands."""

    planned: int
    """The newest batch in the offset log; −1 before the first."""
    committed: int

    @property
    def clean(self) -> bool:
        """Was it stopped between two batches?"""
        return self.planned == self.committed


class Checkpoint:
    """The checkpoint at `path`; what Tidegate keeps about it lies beside it, in `path`.tidegate."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self._files = Files(spark, self.path)
        self.beside = Files(spark, self.path + ".tidegate")

    def position(self) -> Position:
        return Position(self._newest("offsets"), self._newest("commits"))

    def state_partitions(self) -> int | None:
        """Partitions of the state, as the newest batch has them; None before the first batch."""
        newest = self._newest("offsets")
        text = self._files.read(f"offsets/{newest}") if newest >= 0 else None
        if text is None:
            return None
        for line in text.splitlines()[1:]:  # the first line is the log's version, the second the batch's settings
            try:
                found = json.loads(line)["conf"][_PARTITIONS]
            except (ValueError, KeyError, TypeError):
                continue
            return int(found)
        return None

    def back_up(self) -> None:
        """Keep a copy of what says where the query stands: its metadata, and the newest offsets and commits."""
        self.beside.delete("backup")
        newest = self._newest("offsets")
        batches = range(max(0, newest + 1 - _BACKED_UP_BATCHES), newest + 1)
        for name in ("metadata", *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in batches)):
            if self._files.exists(name):
                self._files.copy(name, f"{self.path}.tidegate/backup/{name}")

    def drop_after(self, batch: int) -> None:
        """Forget every batch after `batch`: the commit first, so that a kill in between leaves a pending batch."""
        for log in ("commits", "offsets"):
            for name in self._files.names(log):
                if name.isdigit() and int(name) > batch:
                    self._files.delete(f"{log}/{name}")

    def _newest(self, log: str) -> int:
        return max((int(name) for name in self._files.names(log) if name.isdigit()), default=-1)
