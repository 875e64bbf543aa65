"""Collects the stages of streaming batches until the batch that they belong to has reported."""

from __future__ import annotations

from tidegate.adapters.spark.watcher import BatchKey, Look, StageSample

_MOST_KEPT = 2000


class StageBook:
    """Stages by batch; `take` hands out those of a batch in plan order, once."""

    def __init__(self) -> None:
        self._open: dict[int, BatchKey] = {}
        self._batches: dict[BatchKey, list[StageSample]] = {}

    def take_in(self, look: Look) -> None:
        for key, stage_id in look.begun:
            self._open[stage_id] = key
        for key, stage_id, stage in look.done:
            self._open.pop(stage_id, None)
            if stage is not None:
                self._batches.setdefault(key, []).append(stage)
        while len(self._batches) > _MOST_KEPT:  # batches nobody asks for, of a query that failed in their middle
            self._batches.pop(next(iter(self._batches)))
        while len(self._open) > _MOST_KEPT:  # stages whose end was never heard of: Spark drops events when it is busy
            self._open.pop(next(iter(self._open)))

    def complete(self, key: BatchKey) -> bool:
        """Are all stages of the batch over that were ever begun?"""
        return key in self._batches and key not in self._open.values()

    def take(self, key: BatchKey) -> list[StageSample]:
        """The stages of a batch in plan order; they are given once. What is still open of it will not be heard of."""
        for stage_id in [stage_id for stage_id, owner in self._open.items() if owner == key]:
            del self._open[stage_id]
        return sorted(self._batches.pop(key, []), key=lambda stage: stage.stage_id)
