"""Follows the stages of streaming batches through Spark's status store and adds them up per batch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

from tidegate.spark.statusstore import StatusStore

_BATCH = re.compile(r"runId = ([0-9a-f-]+)\s*\nbatch = (\d+)")
_DONE = {"COMPLETE", "FAILED", "SKIPPED"}
_MOST_READ = 400  # stages looked at in one go: the rest waits, so that one observation stays cheap
_MOST_KEPT = 2000


@dataclass(frozen=True, slots=True)
class StageSample:
    """What is kept of one finished stage."""

    stage_id: int
    tasks: int
    busy_s: float
    cpu_s: float
    communication_s: float
    rows_in: int
    rows_out: int
    launched_s: float | None
    completed_s: float | None


BatchKey = tuple[str, int]
"""Run id and batch id."""


class StageFollower:
    """Reads each stage once, when it is done; `take` hands out the stages of a batch in plan order."""

    def __init__(self, sc: SparkContext, store: StatusStore) -> None:
        self._store = store
        self._tracker = sc._jsc.sc().statusTracker()
        self._open: dict[int, BatchKey | None] = {}
        self._batches: dict[BatchKey, list[StageSample]] = {}
        self._next = self._first_unseen(sc)

    def read(self) -> None:
        """Look at the stages that were open, and at the new ones."""
        for stage_id in list(self._open):
            self._look(stage_id)
        for _ in range(_MOST_READ):
            if not self._look(self._next):
                break
            self._next += 1
        else:
            return
        # A stage that was dropped from the store before it was seen would block the view of all later ones.
        ahead = [int(active) for active in self._tracker.getActiveStageIds() if int(active) >= self._next]
        if ahead:
            self._next = min(ahead)

    def complete(self, key: BatchKey) -> bool:
        """Have all stages of the batch been read?"""
        return key in self._batches and key not in self._open.values()

    def take(self, key: BatchKey) -> list[StageSample]:
        """The stages of a batch in plan order; they are given once."""
        return sorted(self._batches.pop(key, []), key=lambda stage: stage.stage_id)

    def _look(self, stage_id: int) -> bool:
        # The tracker answers "none" where the store throws: an exception across the bridge is the dearest way to ask.
        known = self._tracker.getStageInfo(stage_id).isDefined()
        found = self._store.stage(stage_id) if known else None
        if found is None:
            self._open.pop(stage_id, None)
            return False
        batch = _BATCH.search(found.get("description") or "")
        key = (batch.group(1), int(batch.group(2))) if batch else None
        if found["status"] not in _DONE:
            self._open[stage_id] = key
            return True
        self._open.pop(stage_id, None)
        if key is not None and found["status"] == "COMPLETE":
            self._batches.setdefault(key, []).append(_sample(found))
            if len(self._batches) > _MOST_KEPT:  # batches nobody asks for, of a query that is not watched
                self._batches.pop(next(iter(self._batches)))
        return True

    def _first_unseen(self, sc: SparkContext) -> int:
        jobs = self._store.newest_job()
        return max(jobs["stageIds"], default=-1) + 1 if jobs else 0


def _sample(found: dict[str, Any]) -> StageSample:
    read_records = int(found["inputRecords"]) + int(found["shuffleReadRecords"])
    return StageSample(
        stage_id=int(found["stageId"]),
        tasks=int(found["numCompleteTasks"]),
        busy_s=float(found["executorRunTime"]) / 1e3,
        cpu_s=float(found["executorCpuTime"]) / 1e9,
        communication_s=float(found["shuffleFetchWaitTime"]) / 1e3 + float(found["shuffleWriteTime"]) / 1e9,
        rows_in=read_records,
        rows_out=int(found["shuffleWriteRecords"]) + int(found["outputRecords"]),
        launched_s=_seconds(found.get("firstTaskLaunchedTime")),
        completed_s=_seconds(found.get("completionTime")),
    )


def _seconds(milliseconds: Any) -> float | None:
    return None if milliseconds is None else float(milliseconds) / 1000
