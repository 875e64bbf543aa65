"""The pool size that recent bursts would have needed.

A burst that ends before an executor has started can only be absorbed by executors that are already running. The time of
the next burst is unknown, but what the last ones would have needed is known: the arrivals of the last half hour are
replayed for every size (`model/hindsight.py`). Older arrivals count less, so a surprise is eventually forgotten. If the
objective is long enough to wait for executors to start, the replay has no rows over the objective and sets no minimum.
The bound of a row of a QoS table is treated like an objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.forecast.arrivals import FINE_S
from tidegate.evaluate.table import Floats, Ints
from tidegate.model.hindsight import FollowingPool, late_by_floor
from tidegate.plan.demand import busy_slots, room_for
from tidegate.plan.requirements import requirements_of

LASTS_S = 1800.0
"""How far back to look."""
UNMEASURED_STARTUP_S = 20.0
"""A typical executor in a cloud. Until a start-up has been measured, it is safer to assume a slow one."""
_SPENT = 0.5
"""Share of the error budget that bursts like the past ones may spend before a shrink. The rest is for surprises."""
_FULL = 0.85
"""Utilisation of a pool that follows the load."""


@dataclass(frozen=True, slots=True)
class Need:
    """A size that recent arrivals would have needed, and the outcome with one executor fewer."""

    size: int
    application: str
    """The most demanding application."""
    late_share: float
    """Share of its rows over the objective with one executor fewer."""
    known_s: float
    """Length of the history."""
    row: str = ""
    """The row of its QoS table that is meant, if it is not the latency objective."""


@dataclass(frozen=True, slots=True)
class Hindsight:
    """What the recent past says about the size; None means no requirement."""

    keep: Need | None = None
    """Do not shrink below this size: one executor fewer would have spent half of an error budget."""
    least: Need | None = None
    """Grow to this size: one executor fewer would have spent a whole error budget."""


def look_back(evaluation: Evaluation, looked_into: Sequence[ApplicationEvaluation], startup_s: float) -> Hindsight:
    """What the most demanding of these applications would have needed."""
    sizes = np.arange(*evaluation.executor_bounds)
    keep: Need | None = None
    least: Need | None = None
    for seen in looked_into:
        rates = np.maximum(seen.expected.recent(seen.place, LASTS_S), 0.0)
        if not len(rates) or not len(sizes):
            continue
        late = _late_shares(seen, evaluation, rates, sizes, startup_s, seen.objective.latency_s)
        allowed = float(evaluation.budgets.allowed[seen.place])
        known_s = len(rates) * FINE_S
        keep = _larger(keep, _need(sizes, late, _SPENT * allowed, seen.name, known_s))
        least = _larger(least, _need(sizes, late, allowed, seen.name, known_s))
        for row in requirements_of(seen, evaluation).rows:
            over = _late_shares(seen, evaluation, rates, sizes, startup_s, row.bound_s)
            needs = [_need(sizes, over, row.spared(spent), seen.name, known_s) for spent in (_SPENT, 1.0)]
            named = [None if need is None else replace(need, row=str(row.row)) for need in needs]
            keep, least = _larger(keep, named[0]), _larger(least, named[1])
    return Hindsight(keep, least)


def _need(sizes: Ints, late: Floats, allowed: float, name: str, known_s: float) -> Need | None:
    """One more than the largest size that is too small.

    >>> _need(np.array([1, 2, 3]), np.array([0.4, 0.02, 0.0]), allowed=0.01, name="orders", known_s=60.0)
    Need(size=3, application='orders', late_share=0.02, known_s=60.0, row='')
    """
    short = np.flatnonzero(late > allowed)
    return Need(int(sizes[short[-1]]) + 1, name, float(late[short[-1]]), known_s) if len(short) else None


def _larger(one: Need | None, other: Need | None) -> Need | None:
    if one is None or other is None:
        return one or other
    return other if other.size > one.size else one


def _late_shares(
    seen: ApplicationEvaluation,
    evaluation: Evaluation,
    rates: Floats,
    sizes: Ints,
    startup_s: float,
    latency_s: float,
) -> Floats:
    """By size: the share of the application's recent rows that would have taken longer than this latency."""
    workload, per = seen.workload, evaluation.pool.slots_per_executor
    assert workload is not None
    warmup_s = evaluation.pool.warmup_s
    lead_s, row_s, fixed = startup_s + warmup_s / 2, max(workload.cost.row_s, 1e-9), busy_slots(seen, 0.0)
    work = (rates * row_s + fixed) * seen.detail.residual
    slots = [size * per * room_for(seen.place, evaluation, size * per) for size in sizes.tolist()]
    late = late_by_floor(
        work,
        FINE_S,
        np.array(slots, dtype=np.float64),
        FollowingPool(np.ceil(work / _FULL / per) * per, lead_s, stays_s=3.0 * (startup_s + warmup_s)),
        slack_s=max(latency_s - seen.sample.interval_s, 0.0),
    )
    counts = rates * (1.0 - np.arange(len(rates))[::-1] * FINE_S / LASTS_S)
    return np.asarray(late @ counts / max(float(counts.sum()), 1e-9))
