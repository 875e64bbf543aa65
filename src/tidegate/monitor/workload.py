"""Learns one application's workload from its batches: how fast rows arrive, what a row costs, what waits.

A true service rate needs busy time, not elapsed time: a job that idles half the time could do twice as much
(DS2, Kalavri et al. 2018). So costs are slot-seconds that tasks held, split into a part per batch and one per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from tidegate.domain import ApplicationSample, BatchSample, ExecutorPool
from tidegate.domain.cost import Cost
from tidegate.domain.policy import CapacityRule
from tidegate.monitor.cost import fit_cost
from tidegate.monitor.trend import Trend, fit_trend

_SERVICE_WINDOWS = 5  # a row's cost changes more slowly than the load: look further back
_MOST_POINTS = 512
_LEAST_POINTS = 8
_FIRST_BATCHES = 5
_FIRST_BUSY_S = 10.0
_TREND_LEAP = 1.15  # a trend is followed at most this far beyond what has been seen


@dataclass(slots=True)
class BatchPoint:
    """What is kept of a batch."""

    started_s: float
    committed_s: float
    rows: int
    arrived_rows: int
    """Rows that had ever arrived by `started_s`, counted from the first batch that was seen."""
    busy_s: float | None
    overhead_s: float | None
    latency_p99_s: float | None


@dataclass(slots=True)
class WorkloadMemory:
    """What is remembered of one application; its `cost` outlives a restart."""

    rows_done: int = 0
    points: list[BatchPoint] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """`(time_s, rows ever arrived)`, from the source itself where it tells, otherwise from the batches."""
    cost: Cost | None = None
    parallelism: int | None = None
    """Tasks of the busiest operator: no more slots than these can be of use."""
    executors: int = 0
    settled_s: float = 0.0
    """Batches before this ran beside cold executors: their cost is not the rows'."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One application's load and cost, as known now."""

    arrival_rows_per_s: float
    expected_rows_per_s: float
    """The recent trend, followed to the time when new capacity would pay off; never below the arrival."""
    cost: Cost
    parallelism: int | None
    pending_rows: float
    """Arrived and not committed, the running batch included."""
    batch_s: float
    latency_p99_s: float | None


def learn(
    memory: WorkloadMemory, sample: ApplicationSample, pool: ExecutorPool, now_s: float, rule: CapacityRule
) -> None:
    """Take in the batches of one observation."""
    if pool.registered > memory.executors and memory.executors:
        memory.settled_s = now_s + rule.lead_s
    memory.executors = pool.registered
    for batch in sample.batches:
        _learn_batch(memory, batch)
        if sample.arrival is None:
            _learn_arrival(memory, batch.started_s, memory.points[-1].arrived_rows)
    if sample.arrival is not None:
        _learn_arrival(memory, sample.arrival.time_s, sample.arrival.arrived_rows)
    elif not sample.batches and memory.points and (sample.last_progress_s or 0.0) > memory.points[-1].committed_s:
        _learn_arrival(memory, sample.last_progress_s or 0.0, memory.points[-1].arrived_rows)  # an idle report
    horizon_s = now_s - _SERVICE_WINDOWS * rule.window_s
    # Slow batches leave few in any window: some are kept whatever their age.
    fresh = sum(point.committed_s >= horizon_s for point in memory.points)
    memory.points = memory.points[-min(max(fresh, _LEAST_POINTS), _MOST_POINTS) :]
    fresh = sum(seen[0] >= horizon_s for seen in memory.arrivals)
    memory.arrivals = memory.arrivals[-min(max(fresh, _LEAST_POINTS), _MOST_POINTS) :]
    _learn_cost(memory)


def _learn_batch(memory: WorkloadMemory, batch: BatchSample) -> None:
    memory.rows_done += batch.rows
    if batch.operators and batch.rows:
        memory.parallelism = max(batch.operators, key=lambda operator: operator.busy_s).parallelism
    cold = batch.warming or (batch.started_s < memory.settled_s and memory.cost is not None)
    memory.points.append(
        BatchPoint(
            started_s=batch.started_s,
            committed_s=batch.committed_s,
            rows=batch.rows,
            arrived_rows=memory.rows_done + (batch.backlog_rows or 0),
            busy_s=None if cold else batch.busy_s,
            overhead_s=None if cold else batch.overhead_s,
            latency_p99_s=batch.latency.p99_s if batch.latency else None,
        )
    )


def _learn_arrival(memory: WorkloadMemory, time_s: float, arrived_rows: int) -> None:
    """Take in a count; a source that was started anew counts from zero again, and the old counts are no use."""
    if memory.arrivals and arrived_rows < memory.arrivals[-1][1]:
        memory.arrivals.clear()
    if not memory.arrivals or time_s > memory.arrivals[-1][0]:
        memory.arrivals.append((time_s, arrived_rows))


def _learn_cost(memory: WorkloadMemory) -> None:
    timed = [point for point in memory.points if point.busy_s is not None and point.rows > 0]
    # The first batches of a job are small and slow: a cost from a few of them would call for a pool it does not need.
    evidence = len(timed) >= _FIRST_BATCHES or sum(point.busy_s or 0.0 for point in timed) >= _FIRST_BUSY_S
    if timed and (evidence or memory.cost is not None):
        memory.cost = fit_cost(
            [float(point.rows) for point in timed],
            [point.busy_s or 0.0 for point in timed],
            [point.overhead_s or 0.0 for point in timed],
            memory.cost,
        )


def evaluate(memory: WorkloadMemory, sample: ApplicationSample, now_s: float, rule: CapacityRule) -> Workload | None:
    """The workload as known now, or None while too little has been seen of it."""
    if memory.cost is None:
        return None
    silent_s = now_s - memory.points[-1].committed_s if memory.points else inf
    if silent_s > _SERVICE_WINDOWS * rule.window_s and not sample.in_batch and sample.arrival is None:
        return Workload(0.0, 0.0, memory.cost, memory.parallelism, 0.0, 0.0, None)  # nothing to do for a while
    if not memory.points:
        return None
    if len(memory.arrivals) < 2:
        return None
    recent = _since(memory.arrivals, now_s - rule.window_s)
    arrival, newest = _rate(recent), _rate(_since(recent, recent[-1][0] - rule.window_s / 3))
    expected = max(arrival, newest)
    trend = _arrival_trend(recent)
    if trend is not None and trend.rising:
        expected = min(max(expected, trend.at(now_s + rule.lead_s)), _TREND_LEAP * expected)
    last = memory.points[-1]
    window = [point for point in memory.points if point.committed_s >= now_s - rule.window_s] or [last]
    # While a batch runs, rows pile up behind it unreported; a query that waits has no more than its usual share.
    batch_s = last.committed_s - last.started_s
    waited_s = max(0.0, now_s - last.started_s)
    if not sample.in_batch:
        waited_s = min(waited_s, batch_s + sample.interval_s)
    latencies = [point.latency_p99_s for point in window if point.latency_p99_s is not None]
    return Workload(
        arrival_rows_per_s=arrival,
        expected_rows_per_s=expected,
        cost=memory.cost,
        parallelism=memory.parallelism,
        pending_rows=max(0.0, last.arrived_rows - memory.rows_done + newest * waited_s),
        batch_s=batch_s,
        latency_p99_s=max(latencies) if latencies else None,
    )


Arrivals = list[tuple[float, int]]


def _since(arrivals: Arrivals, since_s: float) -> Arrivals:
    """Counts taken since then, and never fewer than the last two: slow batches leave few in a window."""
    inside = [seen for seen in arrivals if seen[0] >= since_s]
    return inside if len(inside) >= 2 else arrivals[-2:]


def _rate(arrivals: Arrivals) -> float:
    (first_s, first), (last_s, last) = arrivals[0], arrivals[-1]
    return max(0.0, (last - first) / (last_s - first_s))


def _arrival_trend(arrivals: Arrivals) -> Trend | None:
    steps = list(pairwise(arrivals))
    return fit_trend([(before[0] + after[0]) / 2 for before, after in steps], [_rate(list(step)) for step in steps])
