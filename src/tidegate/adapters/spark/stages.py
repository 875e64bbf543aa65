"""Collects the stages of streaming batches until their batch has reported."""

from __future__ import annotations

from tidegate.adapters.spark.watcher import BatchKey, Look, StageSample

_MOST_KEPT = 2000


class StagesByBatch:
    """Stages by batch. `take` returns those of a batch in plan order, once."""

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
        while len(self._batches) > _MOST_KEPT:  # batches never taken, because their query failed
            self._batches.pop(next(iter(self._batches)))
        while len(self._open) > _MOST_KEPT:  # stages without an end: a busy Spark drops events
            self._open.pop(next(iter(self._open)))

    def complete(self, key: BatchKey) -> bool:
        """Have all started stages of the batch ended?"""
        return key in self._batches and key not in self._open.values()

    def take(self, key: BatchKey) -> list[StageSample]:
        """The stages of a batch in plan order, returned once. Stages that are still open are dropped."""
        for stage_id in [stage_id for stage_id, owner in self._open.items() if owner == key]:
            del self._open[stage_id]
        return sorted(self._batches.pop(key, []), key=lambda stage: stage.stage_id)
