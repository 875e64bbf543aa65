"""The load and cost of every application: arrivals, trend, slot-seconds per batch and row, and the queue.

The true service rate needs busy time, not elapsed time: a job that idles half the time could do twice as much (DS2,
Kalavri et al. 2018). So costs are slot-seconds held by tasks, split into a part per batch and a part per row:

    busy = a + s · rows        by least squares, older batches discounted

Dividing busy time by rows would charge the fixed cost of small batches to their rows and make a quiet job look costly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from operator import attrgetter

import numpy as np

from tidegate.domain import BatchSample
from tidegate.domain.cost import BatchCost
from tidegate.evaluate import outliers
from tidegate.evaluate.intake import Batches, Intake, UnderWay
from tidegate.evaluate.table import Column, Flags, Floats, Ints, Table

SLOW_S, FAST_S = 6.0, 2.0
"""Time constants of the two running arrival rates: the level, and the most recent change."""
TELLING_S = 10.0
"""A batch that runs for longer than this shows the cost of a row before it finishes."""
SILENT_S = 60.0
"""An idle query without reports for this long has no load."""
_CONSTANTS_S = np.array([[FAST_S], [SLOW_S]])
SIGNIFICANT = 3.0
GAIN_VARIANCE = 1 / (2 * FAST_S) + 1 / (2 * SLOW_S) - 2 / (FAST_S + SLOW_S)
"""Variance of the difference between the two rates if the load is noise with a variance of 1 per second."""
PER_GAIN = 1 / (SLOW_S - FAST_S)
"""A load that rises by 1 row/s every second keeps the two rates `SLOW_S - FAST_S` apart."""
STEADY_S, STEADY = 8.0, 0.8
"""A rise is steady if it has kept this share of its steepest slope for so long. After a step the slope soon decays."""
TREND_LEAD_S, TREND_LEAP = 20.0, 1.5
"""A steady rise is followed until an executor requested now would be warm, and at most by this factor."""
COST_MEMORY_S, COST_MEMORY_BATCHES = 25.0, 8.0
SPREAD = 0.15
"""Of the mean batch size: with less variation a slope would be noise."""
LEAST_BATCHES = 6
FIRST_BATCHES, FIRST_BUSY_S = 5, 10.0
"""Evidence needed for a first cost: a job's first batches are small and slow."""
FIRST_OVERHEAD_S = 0.5
"""Assumed for a batch until one has been measured."""
MOST_FIXED = 0.5
RECENT = 8
_SAME_S = 0.001
"""Start, duration and commit are rounded separately, so their sum may be slightly off."""
LATENCY_WINDOW_S = 12.0

# Columns used together are adjacent, so that they are gathered and written back at once.
_ARRIVALS = {
    "arrived_s": Column(np.nan),
    "arrived": Column(np.nan),
    "fast": Column(),
    "slow": Column(),
    "counted_s": Column(),
    "noise": Column(),
    "rising_s": Column(),
    "steepest": Column(),
}
_BATCH = {
    "rows_done": Column(),
    "started_s": Column(np.nan),
    "committed_s": Column(np.nan),
    "size": Column(),
    "waiting": Column(),
}
_SUMS = {
    "weight": Column(),
    "sum_rows": Column(),
    "sum_busy": Column(),
    "sum_rows_squared": Column(),
    "sum_rows_busy": Column(),
    "sum_overhead": Column(),
}
_FIT = {
    **_SUMS,
    "least_busy": Column(np.inf),
    "timed": Column(),
    "timed_busy": Column(),
    "batch_s": Column(np.nan),
    "row_s": Column(np.nan),
    "overhead_s": Column(np.nan),
}
_ASIDE = {**outliers.columns("cost"), **outliers.columns("overhead")}

COLUMNS: dict[str, Column] = {
    **_ARRIVALS,
    **_BATCH,
    **_FIT,
    "parallelism": Column(np.nan),
    **_ASIDE,
    "recent_at": Column(),
    "recent_s": Column(-np.inf, width=RECENT),
    "recent_p99_s": Column(np.nan, width=RECENT),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """The current load and cost of one application."""

    arrival_rows_per_s: float
    expected_rows_per_s: float
    """The newest rate, or a steady rise followed until new executors would be warm; never below the arrival rate."""
    cost: BatchCost
    parallelism: int | None
    """Tasks of the busiest operator. It cannot use more slots."""
    pending_rows: float
    """Rows that have arrived and are not committed, including the running batch."""
    batch_s: float
    latency_p99_s: float | None


@dataclass(frozen=True, slots=True)
class Loads:
    """Load and cost of all applications of an observation; NaN if a value is unknown."""

    arrival: Floats
    expected: Floats
    newest: Floats
    pending: Floats
    batch_s: Floats
    row_s: Floats
    overhead_s: Floats
    parallelism: Floats
    last_batch_s: Floats
    p99_s: Floats
    last_count_s: Floats
    """When arrivals were last counted. Where only batches count them, that is when the last reported one started."""
    known: Flags
    """Whether enough has been observed."""

    def of(self, place: int) -> Workload | None:
        if not self.known[place]:
            return None
        tasks, p99_s = self.parallelism.item(place), self.p99_s.item(place)
        return Workload(
            arrival_rows_per_s=self.arrival.item(place),
            expected_rows_per_s=self.expected.item(place),
            cost=BatchCost(self.batch_s.item(place), self.row_s.item(place), self.overhead_s.item(place)),
            parallelism=None if isnan(tasks) else int(tasks),
            pending_rows=self.pending.item(place),
            batch_s=self.last_batch_s.item(place),
            latency_p99_s=None if isnan(p99_s) else p99_s,
        )


@dataclass(frozen=True, slots=True)
class SetAside:
    """One batch whose times were not learned."""

    application_row: int
    batch_id: int
    metric: str
    ratio: float


def learn(table: Table, intake: Intake, settled_s: float) -> tuple[SetAside, ...]:
    """Learn from new batches and arrivals. Batches that began before `settled_s` ran beside cold executors."""
    aside: list[SetAside] = []
    told = ~np.isnan(intake.arrived)
    if told.all():  # every source counts its rows itself, so nothing has to be inferred from batches
        for batches in intake.rounds:
            aside += _learn_batches(table, batches, settled_s)
        _learn_arrivals(table, intake.rows, intake.arrival_s, intake.arrived)
        return tuple(aside)
    counts_itself = np.zeros(len(table), dtype=np.bool_)
    counts_itself[intake.rows] = told
    for batches in intake.rounds:
        aside += _learn_batches(table, batches, settled_s)
        at = ~counts_itself[batches.rows]
        rows = batches.rows[at]
        _learn_arrivals(table, rows, batches.started_s[at], table["rows_done"][rows] + batches.backlog[at])
    _learn_arrivals(table, intake.rows[told], intake.arrival_s[told], intake.arrived[told])
    # A query that reports itself idle has counted its rows, too.
    heard = (
        ~told & (np.fmax(intake.last_progress_s, 0.0) > table["committed_s"][intake.rows] + _SAME_S) & ~intake.in_batch
    )
    rows = intake.rows[heard]
    _learn_arrivals(table, rows, intake.last_progress_s[heard], table["arrived"][rows])
    return tuple(aside)


def _learn_batches(table: Table, batches: Batches, settled_s: float) -> list[SetAside]:
    rows, size, busy_s, committed_s = batches.rows, batches.size, batches.busy_s, batches.committed_s
    span = table.span("rows_done", "waiting")
    block = table.gather(span, rows)
    since_s = np.fmax(batches.duration_s, committed_s - block[2])
    block[0] += size
    block[1], block[2], block[3], block[4] = batches.started_s, committed_s, size, batches.backlog
    table.scatter(span, rows, block)
    batch_s, row_s, overhead_s = table.gather(table.span("batch_s", "overhead_s"), rows)
    known = ~np.isnan(row_s)
    cold = batches.warming | (known & (batches.started_s < settled_s))
    timed = ~np.isnan(busy_s) & (size > 0) & ~cold
    judged = timed & known
    ratios = np.zeros((2, len(rows)))
    expected = batch_s + size * row_s
    np.divide(busy_s, expected, out=ratios[0], where=judged & (expected > 0))
    np.divide(batches.overhead_s, np.maximum(overhead_s, 1e-3), out=ratios[1], where=judged)
    span = table.span("cost_count", "overhead_episode")
    block = table.gather(span, rows)
    odd = outliers.set_aside(block.reshape(2, -1, len(rows)), np.fmax(ratios, 0.0))
    table.scatter(span, rows, block)
    some_odd = bool(odd.any())
    _fit(table, rows, batches, timed & ~odd[0] & ~odd[1] if some_odd else timed, since_s)
    _remember_latency(table, batches, committed_s)
    if not some_odd:
        return []
    return [
        SetAside(int(rows[place]), batches.sample(place).batch_id, metric, float(values[place]))
        for metric, strange, values in zip(("cost", "overhead"), odd, ratios, strict=True)
        for place in np.flatnonzero(strange).tolist()
    ]


def _remember_latency(table: Table, batches: Batches, committed_s: Floats) -> None:
    rows, p99_s = batches.rows, batches.p99_s
    measured = ~np.isnan(p99_s)
    if not measured.all():
        rows, p99_s, committed_s = rows[measured], p99_s[measured], committed_s[measured]
    at = table["recent_at"][rows].astype(np.int64)
    table["recent_s"][at, rows] = committed_s
    table["recent_p99_s"][at, rows] = p99_s
    table["recent_at"][rows] = (at + 1) % RECENT


def learn_tasks(table: Table, row: int, batch: BatchSample) -> None:
    """Remember the tasks of the operator that holds slots longest."""
    if batch.rows and batch.operators:
        table["parallelism"][row] = max(batch.operators, key=attrgetter("busy_s")).parallelism


def _fit(table: Table, rows: Ints, batches: Batches, timed: Flags, since_s: Floats) -> None:
    """Discounted least squares of busy time on rows, one sample at a time. Slow batches are discounted more slowly."""
    size, busy, overhead = batches.size, batches.busy_s, batches.overhead_s
    if not timed.all():
        rows = rows[timed]
        if not len(rows):
            return
        size, busy, overhead, since_s = size[timed], busy[timed], overhead[timed], since_s[timed]
    discount = np.maximum(np.exp(-since_s / COST_MEMORY_S), 1 - 1 / COST_MEMORY_BATCHES)
    span = table.span("weight", "overhead_s")
    block = table.gather(span, rows)
    sums = block[: len(_SUMS)]
    sums *= discount
    sums += (np.ones(len(rows)), size, busy, size * size, size * busy, np.fmax(overhead, 0.0))
    least, count, timed_busy, batch_s, row_s, overhead_s = block[len(_SUMS) :]
    count += 1
    timed_busy += busy
    least[:] = np.minimum(busy, least * 1.02)
    mean_rows, mean_busy, mean_squared, mean_product, mean_overhead = sums[1:] / sums[0]
    variance = mean_squared - mean_rows**2
    covariance = mean_product - mean_rows * mean_busy
    varied = (count >= LEAST_BATCHES) & (variance > (SPREAD * mean_rows) ** 2)
    slope = covariance / np.where(varied, variance, 1.0)
    fixed = np.where(varied, mean_busy - slope * mean_rows, np.fmax(batch_s, 0.0))
    # Neither part can be negative, and no batch costs less than the fixed part. With small batches of similar size,
    # noise can look like a fixed cost. At most half of a batch is therefore fixed, so that rows do not look too cheap.
    fixed = np.minimum(np.maximum(fixed, 0.0), np.minimum(least, MOST_FIXED * mean_busy))
    learned = (count >= FIRST_BATCHES) | (timed_busy >= FIRST_BUSY_S) | ~np.isnan(row_s)
    np.copyto(batch_s, fixed, where=learned)
    np.copyto(row_s, (mean_busy - fixed) / mean_rows, where=learned)
    np.copyto(overhead_s, mean_overhead, where=learned)
    table.scatter(span, rows, block)


def _learn_arrivals(table: Table, rows: Ints, time_s: Floats, arrived: Floats) -> None:
    """Two running rates from counts, and how long they have been rising.

    A restarted source counts from zero again. Its load is what it was, so only the count begins anew.
    """
    if not len(rows):
        return
    span = table.span("arrived_s", "steepest")
    block = table.gather(span, rows)
    anew = np.isnan(block[0]) | (arrived < block[1])
    if anew.any():
        table.scatter(table.span("arrived_s", "arrived"), rows[anew], np.stack((time_s[anew], arrived[anew])))
    later = ~anew & (time_s > block[0])
    if not later.all():
        rows, time_s, arrived = rows[later], time_s[later], arrived[later]
        block = block[:, later]
    last_s, last, fast, slow, counted_s, noise, rising_s, steepest = block
    span_s, more = time_s - last_s, arrived - last
    rate = more / span_s
    # From the line through both, so that a rise is no noise. The first rate deviates from nothing.
    off = np.where(counted_s > 0, rate - (fast + FAST_S * PER_GAIN * (fast - slow)), 0.0)
    block[0], block[1] = time_s, arrived
    counted_s += span_s
    # Until a time constant has passed, every second has the same weight.
    least = span_s / np.maximum(counted_s, span_s)
    means = block[2:4]
    means += np.maximum(1 - np.exp(-span_s / _CONSTANTS_S), least) * (rate - means)
    pace = np.maximum(1 - np.exp(-span_s / (4 * SLOW_S)), least)
    noise += pace * (off * off * span_s - noise)
    gain = fast - slow
    rising = (gain > SIGNIFICANT * np.sqrt(noise * GAIN_VARIANCE)) & (gain >= STEADY * steepest)
    rising_s[:] = np.where(rising, rising_s + span_s, 0.0)
    steepest[:] = np.where(rising, np.maximum(steepest, gain), 0.0)
    table.scatter(span, rows, block)


def _row_costs(learned: Floats, batch: UnderWay, now_s: float) -> Floats:
    """Slot-seconds per row: the learned value, and what a long batch shows before it finishes.

    A batch that has run for a while has cost at least what its tasks have held so far. If nothing has been learned yet,
    as in the first batch after an outage, its own tasks show the cost of a row.
    """
    telling = (now_s - batch.started_s > TELLING_S) & (batch.rows > 0)
    per_row = np.where(telling, 1.0 / np.where(batch.rows > 0, batch.rows, 1.0), np.nan)
    first = np.where(batch.spent_s >= FIRST_BUSY_S, batch.expected_s * per_row, np.nan)
    return np.where(np.isnan(learned), first, np.fmax(learned, batch.spent_s * per_row))


def read(table: Table, intake: Intake, now_s: float) -> Loads:
    """The current load and cost."""
    rows = intake.rows
    last_count_s, _, fast, slow, counted_s, _, rising_s = table.gather(table.span("arrived_s", "rising_s"), rows)
    _, started_s, committed_s, _, waiting = table.gather(table.span("rows_done", "waiting"), rows)
    slow, fast = np.maximum(slow, 0.0), np.maximum(fast, 0.0)
    expected = np.maximum(slow, fast)
    gain = fast - slow
    steady = rising_s >= STEADY_S
    if steady.any():
        ahead = np.minimum(fast + PER_GAIN * gain * (FAST_S + TREND_LEAD_S), TREND_LEAP * expected)
        expected = np.where(steady, ahead, expected)
    last_batch_s = committed_s - started_s
    # While a batch runs, rows pile up behind it unreported. A waiting query has only its usual share.
    waited_s = np.maximum(now_s - started_s, 0.0)
    waited_s = np.where(intake.in_batch, waited_s, np.minimum(waited_s, last_batch_s + intake.status.interval_s))
    under_way = intake.under_way
    if under_way is not None:
        # A batch takes the rows since the one before it. After a quiet time they are those of its last interval.
        usual_s = np.minimum(under_way.started_s - started_s, last_batch_s + intake.status.interval_s)
        waited_s = np.fmin(waited_s, now_s - under_way.started_s + np.maximum(usual_s, 0.0))
    pending = np.fmax(waiting + fast * waited_s, 0.0)
    last_batch_s = np.fmax(last_batch_s, 0.0)
    if under_way is not None:
        last_batch_s = np.fmax(last_batch_s, now_s - under_way.started_s)
        started_s = np.where(np.isnan(started_s), under_way.started_s, started_s)
        counted = under_way.waiting + np.fmax(under_way.rows, 0.0)
        counted = np.where(np.isnan(counted), under_way.waiting, counted)
        pending = np.where(np.isnan(counted), pending, counted)
    silent = ~(now_s - committed_s <= SILENT_S) & ~intake.in_batch & np.isnan(intake.arrived)
    if silent.any():
        slow, expected, fast, pending, last_batch_s = (
            np.where(silent, 0.0, values) for values in (slow, expected, fast, pending, last_batch_s)
        )
    recent_s, recent_p99_s = table["recent_s"], table["recent_p99_s"]
    if not table.holds_all(rows):
        recent_s, recent_p99_s = recent_s.take(rows, axis=1), recent_p99_s.take(rows, axis=1)
    p99_s = np.where(recent_s >= now_s - LATENCY_WINDOW_S, recent_p99_s, -np.inf).max(axis=0)
    p99_s[np.isinf(p99_s)] = np.nan
    # A copy: the table keeps changing, and an evaluation must not.
    batch_s, row_s, overhead_s, parallelism = table.gather(table.span("batch_s", "parallelism"), rows).copy()
    if under_way is not None:
        learned, row_s = row_s, _row_costs(row_s, under_way, now_s)
        guessed = np.isnan(learned) & ~np.isnan(row_s)
        batch_s, overhead_s = np.where(guessed, 0.0, batch_s), np.where(guessed, FIRST_OVERHEAD_S, overhead_s)
    return Loads(
        arrival=slow,
        expected=expected,
        newest=fast,
        pending=pending,
        batch_s=batch_s,
        row_s=row_s,
        overhead_s=overhead_s,
        parallelism=parallelism,
        last_batch_s=last_batch_s,
        p99_s=p99_s,
        last_count_s=last_count_s.copy(),
        known=~np.isnan(row_s) & (silent | (~np.isnan(started_s) & (counted_s > 0))),
    )
