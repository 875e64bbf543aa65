"""Predicts the next batches from the recursion of micro-batches.

A batch takes the rows that arrived since the last one started, and its duration depends on its rows, so with an arrival
rate λ

    gap = max(trigger interval, duration)         rows' = min(admission, backlog + λ · gap)
    duration' = a + b · rows'                     backlog' = backlog + λ · gap − rows'
    latency' = (backlog + λ · gap) / λ + duration'

where a and b are fitted to past batches by least squares with forgetting. Below saturation this converges; above it
every batch is larger than the last. A model trained only on a calm hour cannot know that, but this one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

NEEDED = ("rows", "batch_duration_s", "input_rows_per_s")
HELPFUL = ("arrival_rows_per_s", "trigger_interval_s", "admission_rows", "backlog_rows")
TARGETS = ("latency_p99_s", "batch_duration_s", "throughput_rows_per_s", "backlog_rows", "rows")
_FORGET = 0.99
_SHORT = 0.4


class BatchRecursion:
    """Follows one application's batches and iterates the recursion from the latest.

    >>> recursion = BatchRecursion()
    >>> for size in (90.0, 110.0, 100.0, 120.0, 80.0, 100.0):
    ...     recursion.step({"rows": size, "batch_duration_s": 0.1 + 0.002 * size, "input_rows_per_s": 100.0,
    ...                     "trigger_interval_s": 1.0})
    >>> ahead = recursion.ahead("batch_duration_s", 3)
    >>> round(ahead["steady"], 3), round(recursion.now("latency_p99_s"), 3)
    (0.3, 1.3)
    """

    def __init__(self) -> None:
        self._mass = self._rows = self._durations = self._squares = self._products = 0.0
        self._rate: float | None = None
        self._short = self._slope = 0.0
        self._duration_s = self._interval_s = self._gap_s = self._size = self._backlog = 0.0
        self._admission: float | None = None
        self._time_s: float | None = None

    @property
    def ready(self) -> bool:
        return self._rate is not None and self._mass > 3.0

    def step(self, sample: Mapping[str, float]) -> None:
        """Add a batch. A batch that lacks a required value is ignored."""
        rows, duration_s, rate = (sample.get(name, float("nan")) for name in NEEDED)
        if not (isfinite(rows) and isfinite(duration_s) and isfinite(rate)):
            return
        for_sums = (1.0, rows, duration_s, rows * rows, rows * duration_s)
        sums = (self._mass, self._rows, self._durations, self._squares, self._products)
        self._mass, self._rows, self._durations, self._squares, self._products = (
            _FORGET * total + new for total, new in zip(sums, for_sums, strict=True)
        )
        fresh = sample.get("arrival_rows_per_s", float("nan"))
        self._learn_rate(fresh if isfinite(fresh) else rate)
        self._learn_gap(sample, duration_s)
        self._duration_s, self._size = duration_s, rows
        backlog, admission = sample.get("backlog_rows", 0.0), sample.get("admission_rows", float("nan"))
        self._backlog = backlog if isfinite(backlog) else 0.0
        self._admission = admission if isfinite(admission) else None

    def now(self, target: str) -> float:
        """Return the recursion's value for the latest batch. Its difference from the measured value is the bias."""
        return self._value(target, self._size, self._batch_s(self._size), self._gap_s, self._gap_s, self._backlog)

    def ahead(self, target: str, batches: int) -> dict[str, float]:
        """Return the target `batches` ahead if the rate stays the same, returns to its mean, or continues to change."""
        rate = self._rate or 0.0
        return {
            "last": self._iterate(target, batches, rate, 0.0),
            "steady": self._iterate(target, batches, self._short, 0.0),
            "drifting": self._iterate(target, batches, self._short, self._slope),
        }

    def _iterate(self, target: str, batches: int, rate: float, slope: float) -> float:
        duration_s, backlog, found = self._duration_s, self._backlog, 0.0
        for _ in range(batches):
            rate = max(0.0, rate + slope)
            gap_s = max(self._interval_s, duration_s, 1e-6)
            waiting = backlog + rate * gap_s
            rows = waiting if self._admission is None else min(self._admission, waiting)
            after_s = self._batch_s(rows)
            backlog = waiting - rows
            oldest_s = waiting / rate if rate > 0 else gap_s
            # From commit to commit: the gap, longer or shorter by the difference of the two batches.
            commits_s = max(gap_s + after_s - duration_s, 1e-6)
            found = self._value(target, rows, after_s, oldest_s, commits_s, backlog)
            duration_s = after_s
        return found

    def _value(
        self, target: str, rows: float, duration_s: float, oldest_s: float, commits_s: float, backlog: float
    ) -> float:
        if target == "latency_p99_s":
            return oldest_s + duration_s
        if target == "throughput_rows_per_s":
            return rows / commits_s if commits_s > 0 else 0.0
        return {"batch_duration_s": duration_s, "backlog_rows": backlog, "rows": rows}[target]

    def _batch_s(self, rows: float) -> float:
        """`a + b · rows`; if sizes hardly differ, the mean duration in proportion."""
        mean_rows, mean_s = self._rows / self._mass, self._durations / self._mass
        variance = self._squares / self._mass - mean_rows**2
        covariance = self._products / self._mass - mean_rows * mean_s
        if variance <= (0.01 * mean_rows) ** 2 or covariance <= 0:
            return mean_s
        slope = min(covariance / variance, mean_s / mean_rows)  # the duration of an empty batch cannot be negative
        return mean_s + slope * (rows - mean_rows)

    def _learn_rate(self, rate: float) -> None:
        if self._rate is None:
            self._short = rate
        before, self._rate = self._short, rate
        self._short += _SHORT * (rate - self._short)
        self._slope += _SHORT / 2 * ((self._short - before) - self._slope)

    def _learn_gap(self, sample: Mapping[str, float], duration_s: float) -> None:
        """Learn the trigger interval: the reported one, or the gap before batches that had to wait for their
        trigger."""
        interval_s, committed_s = sample.get("trigger_interval_s", float("nan")), sample.get("time_s", float("nan"))
        started_s = committed_s - duration_s if isfinite(committed_s) else None
        told = isfinite(interval_s)
        self._gap_s = max(interval_s if told else self._interval_s, self._duration_s)
        if started_s is not None and self._time_s is not None and started_s > self._time_s:
            self._gap_s = started_s - self._time_s
            if not told and self._gap_s > 1.02 * self._duration_s:
                self._interval_s += _SHORT * (self._gap_s - self._interval_s) if self._interval_s else self._gap_s
        if told:
            self._interval_s = interval_s
        self._time_s = started_s
