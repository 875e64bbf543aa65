"""Turns an application's evaluation into the model's input, and computes the slots that it keeps busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidegate.domain import ExecutorPool, RunningBatch
from tidegate.domain.cost import BatchCost
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.expected import ArrivalPath
from tidegate.evaluate.forecast.arrivals import FINE_S
from tidegate.evaluate.table import Floats
from tidegate.model.rollout import Query
from tidegate.model.sharing import room

_BAND = 0.25
"""How far arrivals may deviate if there is no forecast."""
_LEAST_BAND, _MOST_BAND = 0.1, 0.5
"""Range of the deviation assumed when a forecast is not trusted; within it, the forecast's own interval decides."""
_RARELY = 0.05
"""Share of analogues below the lower edge and above the upper one."""
_AGE_GROUPS = 4
_CV_SERVICE = 0.15


def query_of(seen: ApplicationEvaluation, now_s: float) -> Query:
    """The current state of its queue: the waiting rows and their age, the running batch, and the costs."""
    workload, sample = seen.workload, seen.sample
    assert workload is not None
    rate = max(workload.arrival_rows_per_s, 1e-9)
    pending = workload.pending_rows
    groups = _AGE_GROUPS if pending >= 1 else 0
    arrival, running = sample.arrival, sample.running_batch
    oldest_s = pending / rate
    if arrival is not None and arrival.oldest_s is not None:
        oldest_s = max(0.0, now_s - arrival.oldest_s)
    left_s = rows = 0.0
    if running is not None and running.rows and running.busy_s is not None:
        work_s = workload.cost.batch_s + rate * max(sample.interval_s, workload.batch_s) * workload.cost.row_s
        usual_slots = work_s / max(workload.batch_s, 0.1)
        left_s = _left_s(running, now_s, workload.cost, usual_slots)
        rows = min(pending, float(running.rows))
    elif sample.in_batch and pending >= 1:
        expected_s, running_s = workload.batch_s, max(0.0, now_s - (sample.last_progress_s or now_s))
        # A batch that has run longer than usual is expected to take half as long again.
        left_s = max(expected_s - running_s, running_s / 2 if running_s > 2 * expected_s else 0.0, 0.1)
        rows = min(pending, rate * max(sample.interval_s, expected_s))
    busy = [max(profile.busy_s, 0.0) for profile in seen.detail.profiles]
    measured = sum(busy) > 0
    return Query(
        batch_s=workload.cost.batch_s,
        row_s=workload.cost.row_s,
        overhead_s=workload.cost.overhead_s,
        interval_s=sample.interval_s,
        objective_s=seen.objective.latency_s,
        percentile=seen.objective.percentile,
        batch_left_s=left_s,
        batch_rows=rows,
        tasks=tuple(profile.parallelism for profile in seen.detail.profiles) if measured else (),
        work_share=tuple(busy) if measured else (),
        in_waves=seen.detail.in_waves,
        residual=seen.detail.residual,
        cv_service=_CV_SERVICE,
        # The newest rows arrived just now; older ones arrived at the usual rate.
        waiting_ages_s=np.linspace(oldest_s, 0.0, groups + 1) if groups else np.zeros(0),
        waiting_rows=np.full(groups, pending / max(groups, 1)),
    )


def without_backlog(query: Query) -> Query:
    """The query in the long run: nothing waits, and no batch is running."""
    return replace(query, waiting_ages_s=np.zeros(0), waiting_rows=np.zeros(0), batch_left_s=0.0, batch_rows=0.0)


def _left_s(batch: RunningBatch, now_s: float, cost: BatchCost, usual_slots: float) -> float:
    """Remaining time of a batch: what remains of its work, divided by the slots that it keeps busy.

    Early in a batch the finished tasks may be those of a small stage, so the learned cost of its rows counts; the more
    tasks are finished, the more what they took counts. A batch that has cost more than was learned is judged by its
    tasks alone. A batch that waits because others use the slots is expected to get as many as usual.

    >>> cost = BatchCost(batch_s=1.0, row_s=0.01, overhead_s=0.4)
    >>> waits = RunningBatch(100.0, 200, tasks_done=1, tasks_left=14, tasks_running=0, busy_s=0.2, held_s=0.0)
    >>> round(_left_s(waits, 101.4, cost, usual_slots=2.0), 1)  # 2.8 slot-seconds: one small task says little
    1.4
    >>> runs = RunningBatch(100.0, 200, tasks_done=10, tasks_left=10, tasks_running=2, busy_s=8.0, held_s=1.0)
    >>> round(_left_s(runs, 104.5, cost, usual_slots=2.0), 1)  # three times the learned cost: eight tasks of 0.8 s
    3.2
    """
    busy_s, held_s, running_s = batch.busy_s or 0.0, batch.held_s or 0.0, max(0.0, now_s - batch.started_s)
    spent_s, running = busy_s + held_s, batch.tasks_running or 0
    if not batch.tasks_done or spent_s <= 0:
        return max(0.1, running_s / 2)
    by_tasks_s = busy_s / batch.tasks_done * max(0, batch.tasks_left - running)
    by_rows_s = cost.batch_s + cost.row_s * (batch.rows or 0) - spent_s
    known = batch.tasks_done / (batch.tasks_done + batch.tasks_left)
    left_s = known * by_tasks_s + (1 - known) * by_rows_s if by_rows_s > 0 else by_tasks_s
    pace = spent_s / running_s if running_s > 0 else 0.0
    return max(0.1, left_s / max(pace, running or usual_slots, 0.1))


def path_of(seen: ApplicationEvaluation, steps: int, step_s: float, lead_s: float) -> Floats:
    """Arrivals to expect: lower edge, mean and upper edge, in rows per second at each step.

    They follow a trusted forecast. An untrusted one would extrapolate every burst, so what followed in similar
    situations takes its place, or, without any, the recent level with a wide band. The edges count in full until new
    executors could be ready, and fade out after that: executors for later arrivals can still be requested later.
    """
    workload = seen.workload
    assert workload is not None
    path = seen.path
    if path is None or not path.trusted:
        expected, band = workload.expected_rows_per_s, _BAND
        if path is not None:
            spread = float(path.upper[0] - path.mean[0]) / max(expected, 1e-9)
            band = min(max(spread, _LEAST_BAND), _MOST_BAND)
        edges = (min(workload.arrival_rows_per_s, (1 - band) * expected), expected, (1 + band) * expected)
        lower, mean, upper = with_analogues(seen, np.array(edges), (_RARELY, None, 1 - _RARELY), steps, step_s)
    else:
        lower, mean, upper = (_stretch(part, path, steps, step_s) for part in (path.lower, path.mean, path.upper))
    at_s = (np.arange(steps) + 0.5) * step_s
    counts = np.clip(2.0 - at_s / max(lead_s, step_s), 0.0, 1.0)
    paths = np.stack([mean + counts * (lower - mean), mean, mean + counts * (upper - mean)])
    return np.asarray(np.maximum(paths, 0.0))


def with_analogues(
    seen: ApplicationEvaluation, levels: Floats, shares: Sequence[float | None], steps: int, step_s: float
) -> Floats:
    """For each level: the path that starts there and follows the analogues as far as they can be trusted.

    `shares` says which quantile of the analogues belongs to each level; None is their mean.
    """
    assert seen.workload is not None
    constant = np.repeat(levels[:, None], steps, axis=1)
    found = seen.expected.analogues(seen.place, seen.workload.expected_rows_per_s, steps * step_s)
    if found is None:
        return constant
    likely = np.stack([found.mean if share is None else found.quantile(share) for share in shares])
    at = ((np.arange(steps) + 0.5) * step_s // FINE_S).astype(np.int64)
    return np.asarray(constant + found.trust * (likely[:, at] - constant))


def _stretch(values: Floats, path: ArrivalPath, steps: int, step_s: float) -> Floats:
    at_s = (np.arange(steps) + 0.5) * step_s
    known_s = (np.arange(len(values)) + 0.5) * path.step_s
    return np.asarray(np.interp(at_s, known_s, values))


def busy_slots(seen: ApplicationEvaluation, rows_per_s: float | None = None) -> float:
    """Slots that its rows and batches keep busy on average, at this rate or at the expected one."""
    workload = seen.workload
    assert workload is not None
    rate = workload.expected_rows_per_s if rows_per_s is None else rows_per_s
    period_s = max(seen.sample.interval_s, workload.cost.overhead_s, 0.5)
    return rate * workload.cost.row_s + workload.cost.batch_s / period_s


def warm_slots(pool: ExecutorPool, now_s: float) -> int:
    """Slots of executors that are past their warm-up, or those of one executor if there are none.

    >>> from tidegate.domain import ExecutorSample
    >>> warm, cold = (ExecutorSample(name, "here", 2, 0, since_s) for name, since_s in (("0", 0.0), ("1", 95.0)))
    >>> warm_slots(ExecutorPool((warm, cold), requested=2, slots_per_executor=2), now_s=100.0)
    2
    """
    cold_since_s = now_s - pool.warmup_s
    return sum([each.slots for each in pool.executors if each.since_s <= cold_since_s]) or pool.slots_per_executor


def all_warm_s(pool: ExecutorPool) -> float:
    """When the executors that joined the pool have warmed up. Batches that started before say little about it.

    Executors that were there from the beginning do not count: a query's own first batch is known to be cold.

    >>> from tidegate.domain import ExecutorSample
    >>> old, new = (ExecutorSample(name, "here", 2, 0, since_s) for name, since_s in (("0", 0.0), ("1", 95.0)))
    >>> [all_warm_s(ExecutorPool(pool, requested=2, slots_per_executor=2)) for pool in ((old, new), (old, old))]
    [105.0, 0.0]
    """
    since_s = [executor.since_s for executor in pool.executors]
    newest_s, oldest_s = max(since_s, default=0.0), min(since_s, default=0.0)
    return newest_s + pool.warmup_s if newest_s > oldest_s else oldest_s


def room_for(place: int, evaluation: Evaluation, slots: float) -> float:
    """The share of the slots that it can count on: what the others leave free, but at least its fair share.

    Lighter classes yield, so only applications of at least the same weight count. A single one can count on all.
    """
    if len(evaluation.samples) == 1:
        return 1.0
    own = evaluation.busy_slots.item(place)
    return room(own, evaluation.busy_beside(place), evaluation.all_busy_slots, slots)
