"""Notes once, in the journal, which queries have rows whose latency cannot be measured."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.adapters.spark.backgroundrebalance import Note
from tidegate.domain import ApplicationSample

_BATCHES = 3
"""Consecutive batches without latency before a note: the first may end before the broker has answered."""


class Unmeasured:
    """Counts batches without a latency."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._batches: dict[str, int] = {}

    def look(self, samples: Iterable[ApplicationSample]) -> None:
        for sample in samples:
            for batch in sample.batches:
                if batch.latency is not None:
                    self._batches[sample.name] = 0
                elif batch.rows:
                    self._batches[sample.name] = self._batches.get(sample.name, 0) + 1
                    if self._batches[sample.name] == _BATCHES:
                        self._tell(sample.name)

    def _tell(self, name: str) -> None:
        self._note(
            "latency-unmeasured",
            f"{name}: its source does not say when rows arrived, so their latency cannot be measured; decisions use "
            "rates and backlog instead. To have it measured, mark a column with the arrival time (Topology)",
        )
