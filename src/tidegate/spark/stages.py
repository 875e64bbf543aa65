"""Collects the stages of streaming batches until the batch that they belong to has reported."""

from __future__ import annotations

from tidegate.spark.watcher import BatchKey, Look, StageSample

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

    def complete(self, key: BatchKey) -> bool:
        """Are all stages of the batch over that were ever begun?"""
        return key in self._batches and key not in self._open.values()

    def take(self, key: BatchKey) -> list[StageSample]:
        """The stages of a batch in plan order; they are given once."""
        return sorted(self._batches.pop(key, []), key=lambda stage: stage.stage_id)
