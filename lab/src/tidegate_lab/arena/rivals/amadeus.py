"""Amadeus' elastic scaling of Spark Structured Streaming: in proportion to batch time ÷ trigger interval.

At every batch the ratio is smoothed (weight 0.6 for the new one). Above 1.0 the pool grows by that factor, below 0.75
it shrinks by it. Each change is given time to take effect before the next one.
"""

from __future__ import annotations

import math

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival


class Amadeus(Rival):
    """Pool size × smoothed batch time ÷ interval."""

    name = "amadeus"
    period_s = 1.0

    def __init__(self, up: float = 1.0, down: float = 0.75, smoothing: float = 0.6) -> None:
        super().__init__()
        self.up, self.down, self.smoothing = up, down, smoothing
        self._ratio: float | None = None

    def wish(self, now: Measures) -> tuple[int, str] | None:
        if not now.batches or not now.interval_s:
            return None
        for batch in now.batches:
            ratio = batch.duration_s / now.interval_s
            self._ratio = ratio if self._ratio is None else self.smooth(self._ratio, ratio)
        if self._ratio is None or now.executors != now.requested:
            return None
        size = self.after(now.executors, self._ratio)
        if size == now.executors:
            return None
        text = f"batches take {self._ratio:.2f} intervals"
        self._ratio = None  # batches at the old size say nothing about the new one
        return size, text

    def smooth(self, before: float, ratio: float) -> float:
        return self.smoothing * ratio + (1 - self.smoothing) * before

    def after(self, executors: int, ratio: float) -> int:
        if ratio > self.up:
            return math.ceil(executors * ratio)
        if ratio < self.down:
            return max(1, math.ceil(executors * ratio))
        return executors
