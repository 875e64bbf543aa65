"""Rows over the objective: how many there are in the current window, and how much of the error budget is left.

An objective allows a share of the rows in any window to be over it: 1 − percentile, or the `violations` of a class.
Windows are rings of twelve buckets, so the share always refers to the last window, not to one that starts at a round
hour, and memory is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.domain import LatencySample
from tidegate.evaluate.intake import Batches, Intake
from tidegate.evaluate.table import Column, Flags, Floats, Ints, Table

BUCKETS = 12
_BEYOND = np.array([1.0, 0.5, 0.1, 0.01])
"""Share of rows above zero, the median, the 90th and the 99th percentile."""

COLUMNS: dict[str, Column] = {
    "bucket": Column(-1.0, width=BUCKETS),
    "bucket_rows": Column(width=BUCKETS),
    "bucket_late": Column(width=BUCKETS),
    "late_total": Column(),
    "rows_total": Column(),
}


@dataclass(frozen=True, slots=True)
class Promises:
    """The objectives of the applications of an observation."""

    latency_s: Floats
    percentile: Floats
    allowed: Floats
    """The share of rows that may be over the objective in any window."""
    window_s: Floats
    weight: Floats
    """Importance of the application's class."""
    floor: Floats
    """Share of its arriving rows that is served even when capacity is short."""
    group: Ints
    """Its class, as an index of `groups`. An application without a class is its own group."""
    level: Ints
    """0 for the heaviest. Applications of the same weight share a level."""
    groups: tuple[str, ...]
    """The classes of the policy, followed by applications without a class."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """How the objectives are met in the current window."""

    rows: Floats
    late: Floats
    allowed: Floats

    @property
    def late_share(self) -> Floats:
        """0 if nothing was measured."""
        return np.asarray(self.late / np.maximum(self.rows, 1.0))

    def missed(self, least_rows: float, among: Flags) -> list[int]:
        """Indices of applications with at least this many rows and a larger share over the objective than allowed."""
        if not np.count_nonzero(self.late):
            return []
        missed = (self.rows >= least_rows) & (self.late_share > self.allowed) & among
        return np.flatnonzero(missed).tolist()

    @property
    def left(self) -> Floats:
        """The remaining error budget, from 1 (untouched) to 0 (spent) and below."""
        return np.asarray(1.0 - self.late_share / self.allowed)


def late_shares(latency: Floats, bound_s: Floats) -> Floats:
    """The share of rows above the bound. Between known quantiles it falls exponentially, as tails do.

    `latency` is (n, 5): rows, p50, p90, p99, max.

    >>> seen = np.array([[100, 1.0, 2.0, 3.0, 4.0]] * 4)
    >>> late_shares(seen, np.array([0.5, 1.5, 3.0, 4.0])).round(3).tolist()
    [0.707, 0.224, 0.01, 0.0]
    """
    edges = np.concatenate([np.zeros((len(latency), 1)), latency[:, 1:4]], axis=1)
    most = latency[:, 4]
    shares = np.where(
        bound_s >= latency[:, 3],
        _BEYOND[-1] * (most - bound_s) / np.maximum(most - latency[:, 3], 1e-12),
        0.0,
    )
    for step in range(3):
        low, high = edges[:, step], edges[:, step + 1]
        inside = (bound_s >= low) & (bound_s < high)
        part = np.clip((bound_s - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
        shares = np.where(inside, _BEYOND[step] * (_BEYOND[step + 1] / _BEYOND[step]) ** part, shares)
    return np.where(bound_s >= most, 0.0, np.clip(shares, 0.0, 1.0))


def late_share(latency: LatencySample, bound_s: float) -> float:
    """The same for one batch.

    >>> late_share(LatencySample(rows=100, p50_s=1.0, p90_s=2.0, p99_s=3.0, max_s=4.0), 2.0)
    0.1
    """
    seen = np.array([[latency.rows, latency.p50_s, latency.p90_s, latency.p99_s, latency.max_s]])
    return float(late_shares(seen, np.array([bound_s]))[0])


def late_rows(batches: Batches, measured: Ints | slice, bound_s: Floats) -> Floats:
    """Rows over the bound in these batches. Most have none and are skipped."""
    late = np.zeros(len(bound_s))
    over = np.flatnonzero(batches.max_s[measured] > bound_s)
    if len(over):
        places = (over if isinstance(measured, slice) else measured[over]).tolist()
        seen = [sample for sample in (batches.sample(place).latency for place in places) if sample is not None]
        latency = np.array([(one.rows, one.p50_s, one.p90_s, one.p99_s, one.max_s) for one in seen], dtype=np.float64)
        late[over] = latency[:, 0] * late_shares(latency, bound_s[over])
    return late


def learn(table: Table, intake: Intake, promises: Promises) -> None:
    """Count the rows of new batches, and those over the objective."""
    for batches in intake.rounds:
        rows, size, committed_s = batches.rows, batches.size, batches.committed_s
        latency_s, window_s = promises.latency_s, promises.window_s
        if rows is not intake.rows:
            place_of = np.empty(len(table), dtype=np.int64)
            place_of[intake.rows] = np.arange(len(intake.rows))
            latency_s, window_s = latency_s[place_of[rows]], window_s[place_of[rows]]
        measured: Ints | slice = slice(None)
        seen = ~np.isnan(batches.max_s) & ~batches.warming
        if not seen.all():
            measured = np.flatnonzero(seen)
            rows, size, committed_s = rows[measured], size[measured], committed_s[measured]
            latency_s, window_s = latency_s[measured], window_s[measured]
        late = late_rows(batches, measured, latency_s)
        number = np.floor(committed_s / (window_s / BUCKETS))
        slot = number.astype(np.int64) % BUCKETS
        anew = table["bucket"][slot, rows] != number
        if anew.any():
            first, of = slot[anew], rows[anew]
            table["bucket"][first, of] = number[anew]
            table["bucket_rows"][first, of] = table["bucket_late"][first, of] = 0.0
        table["bucket_rows"][slot, rows] += size
        table["rows_total"][rows] += size
        if late.any():
            table["bucket_late"][slot, rows] += late
            table["late_total"][rows] += late


def read(table: Table, intake: Intake, promises: Promises, now_s: float) -> Budgets:
    """The current window of every application."""
    rows = intake.rows
    bucket, counted, late = table["bucket"], table["bucket_rows"], table["bucket_late"]
    if not table.holds_all(rows):
        bucket, counted, late = (cells.take(rows, axis=1) for cells in (bucket, counted, late))
    newest = np.floor(now_s / (promises.window_s / BUCKETS))
    inside = bucket > newest - BUCKETS
    return Budgets(
        rows=np.where(inside, counted, 0.0).sum(axis=0),
        late=np.where(inside, late, 0.0).sum(axis=0) if late.any() else np.zeros(len(rows)),
        allowed=promises.allowed,
    )
