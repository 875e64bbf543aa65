"""The size that the recent past says is enough: with fewer executors its bursts would have been late.

A burst that is over before an executor has started can only be met by executors that are already there. Nobody can say
when the next one comes, but what the last ones would have needed is known: the arrivals of the last half hour are
played again for every size (`model/hindsight.py`). Older ones count less, so that a surprise is forgotten in the end.
Where rows may wait until executors have started, nothing is late in hindsight, and nothing is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.forecast.arrivals import FINE_S
from tidegate.evaluate.table import Floats, Ints
from tidegate.model.hindsight import late_by_floor
from tidegate.plan.demand import busy_slots, room_for

LASTS_S = 1800.0
"""How far back it looks."""
UNMEASURED_STARTUP_S = 20.0
"""A usual executor in a cloud. Until one was measured, it is safer to expect a slow one than a quick one."""
_SPENT = 0.5
"""Of the error budget: what bursts like the past ones may spend before a shrink; the rest is for surprises."""
_FULL = 0.85
"""Busy share of a pool that follows the load."""


@dataclass(frozen=True, slots=True)
class Need:
    """A size that recent arrivals would have needed, and what the next smaller one would have led to."""

    size: int
    application: str
    """The one that would have needed most."""
    late_share: float
    """Of its rows, with one executor fewer."""
    known_s: float
    """How much of the past is known."""


@dataclass(frozen=True, slots=True)
class Hindsight:
    """What the recent past says about the size; None where it says nothing."""

    keep: Need | None = None
    """The pool does not shrink below it: one executor fewer would have spent half of an error budget."""
    least: Need | None = None
    """The pool grows to it: one executor fewer would have spent all of it."""


def look_back(
    evaluation: Evaluation, looked_into: Sequence[ApplicationEvaluation], startup_s: float, warmup_s: float
) -> Hindsight:
    """What the most demanding of these applications would have needed."""
    sizes = np.arange(*evaluation.executor_bounds)
    keep: Need | None = None
    least: Need | None = None
    for seen in looked_into:
        rates = np.maximum(seen.expected.recent(seen.place, LASTS_S), 0.0)
        if not len(rates) or not len(sizes):
            continue
        late = _late_shares(seen, evaluation, rates, sizes, startup_s, warmup_s)
        allowed = float(evaluation.budgets.allowed[seen.place])
        known_s = len(rates) * FINE_S
        keep = _larger(keep, _need(sizes, late, _SPENT * allowed, seen.name, known_s))
        least = _larger(least, _need(sizes, late, allowed, seen.name, known_s))
    return Hindsight(keep, least)


def _need(sizes: Ints, late: Floats, allowed: float, name: str, known_s: float) -> Need | None:
    """The size after the last one that is too small.

    >>> _need(np.array([1, 2, 3]), np.array([0.4, 0.02, 0.0]), allowed=0.01, name="orders", known_s=60.0)
    Need(size=3, application='orders', late_share=0.02, known_s=60.0)
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
    warmup_s: float,
) -> Floats:
    """By size: the share of the application's recent rows that would have been over the objective."""
    workload, per = seen.workload, evaluation.pool.slots_per_executor
    assert workload is not None
    lead_s, row_s, fixed = startup_s + warmup_s / 2, max(workload.cost.row_s, 1e-9), busy_slots(seen, 0.0)
    work = (rates * row_s + fixed) * seen.detail.residual
    slots = [size * per * room_for(seen.place, evaluation, size * per) for size in sizes.tolist()]
    late = late_by_floor(
        work,
        FINE_S,
        np.array(slots, dtype=np.float64),
        np.ceil(work / _FULL / per) * per,
        lead_s=lead_s,
        stays_s=3.0 * (startup_s + warmup_s),
        slack_s=max(seen.objective.latency_s - seen.sample.interval_s, 0.0),
    )
    counts = rates * (1.0 - np.arange(len(rates))[::-1] * FINE_S / LASTS_S)
    return np.asarray(late @ counts / max(float(counts.sum()), 1e-9))
