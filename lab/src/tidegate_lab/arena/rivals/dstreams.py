"""The rule of Spark's old streaming engine (`streaming.scheduler.ExecutorAllocationManager`).

Every 60 s: mean processing time ÷ batch interval. At 0.9 or more, add `max(1, round(ratio))`; at 0.3 or less, remove
one.
Defaults: `spark.streaming.dynamicAllocation.*`.
"""

from __future__ import annotations

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival


class DStreams(Rival):
    """Batch time relative to the interval, with two thresholds."""

    name = "dstreams"

    def __init__(self, up: float = 0.9, down: float = 0.3, period_s: float = 60.0) -> None:
        super().__init__()
        self.up, self.down, self.period_s = up, down, period_s

    def wish(self, now: Measures) -> tuple[int, str] | None:
        if not now.batches or not now.interval_s:
            return None
        ratio = sum(batch.duration_s for batch in now.batches) / len(now.batches) / now.interval_s
        return self.after(now.executors, ratio)

    def after(self, executors: int, ratio: float) -> tuple[int, str] | None:
        if ratio >= self.up:
            return executors + max(1, round(ratio)), f"batches take {ratio:.2f} intervals"
        if ratio <= self.down:
            return executors - 1, f"batches take {ratio:.2f} intervals"
        return None
