"""Growth that can wait: rows may queue within a long objective, so executors need not be bought for every burst.

The pool proposer assumes that the forecast comes true. While a burst lasts, it looks like a new level, and a pool
bought for it is paid for long afterwards. So growth is delayed as long as the delay can be made up for. The chosen size
is the smallest at which every application that needs the growth keeps half of its objective's slack even if the rest is
bought a little later. Applications with a short objective cannot wait, and for them the pool grows at once. The bound
of a row of a QoS table is treated like an objective.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

import numpy as np

from tidegate.domain import Proposal, Reason, ScaleExecutors
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.evaluate.forecast.arrivals import FINE_S
from tidegate.evaluate.table import Floats
from tidegate.model.rollout import Candidate, rollout
from tidegate.model.slotpath import ExecutorStart, ramp
from tidegate.plan.demand import path_of, query_of, room_for, with_analogues
from tidegate.plan.requirements import requirements_of
from tidegate.plan.wording import executors

_LATER_S = 5.0
"""Delay after which the rest would be bought: a few steps of the controller."""
_STEP_S = 2.0
_KEPT = 0.5
"""Share of an objective's slack that waiting may use. The rest is for errors of the model."""
_CAUTION = 0.75
"""Quantile of past continuations to wait for: the mean of a skewed load would end every burst too soon."""
_USUAL_S = 300.0
"""The usual load is the median of this time."""
_HARM = 0.1
"""Share of the error budget below which rows over the objective do no harm."""


def what_cannot_wait(
    growth: Proposal,
    evaluation: Evaluation,
    names: Iterable[str],
    startup_s: float,
    in_parts: bool = True,
    least: int = 0,
) -> tuple[Proposal | None, Reason]:
    """The part of a growth that is needed at once, and why the rest can wait. If nothing can wait, the whole growth.

    `names` are the applications that need the growth. An executor takes `startup_s` to register. A pool that changes
    often does not grow `in_parts`: either the whole growth waits, or none of it. Growth up to the size `least` never
    waits.
    """
    assert isinstance(growth.action, ScaleExecutors)
    now, target = evaluation.pool.requested, growth.action.target
    sizes = range(now, target + 1)
    places = [evaluation.places[name] for name in names if name in evaluation.places]
    looked_into = [evaluation.of(place) for place in places if evaluation.usable[place]]
    enough = max(now, min(least, target)) if looked_into else target
    for seen in looked_into:
        bounds_s = [(seen.objective.latency_s, _HARM * float(evaluation.budgets.allowed[seen.place]))]
        bounds_s += [(row.bound_s, row.spared(_HARM)) for row in requirements_of(seen, evaluation).rows]
        for latency_s, harmless in bounds_s:
            beyond = _beyond(seen, evaluation, sizes, startup_s, latency_s)
            # An application that exceeds this with every size has no slack to wait with.
            sparing = (size for size, late in zip(sizes, beyond, strict=True) if late <= harmless)
            enough = max(enough, next(sparing, target))
    if enough == target or (enough > now and not in_parts):
        return growth, growth.reason
    longest = max(looked_into, key=lambda seen: seen.objective.latency_s)
    text = (
        f"{growth.reason.text}; {executors(enough)} will do for now, because rows of {longest.name} can wait within "
        f"their objective of {longest.objective.latency_s:g} s"
    )
    reason = Reason("queue", text)
    return (None if enough == now else replace(growth, action=ScaleExecutors(enough), reason=reason)), reason


def _beyond(
    seen: ApplicationEvaluation, evaluation: Evaluation, sizes: range, startup_s: float, latency_s: float
) -> list[float]:
    """By size: the share of rows that use more than half of the slack if the largest size follows a little later."""
    # Rows that arrive after the later executors are warm do not depend on whether those were bought now.
    steps = ceil((_LATER_S + startup_s + evaluation.pool.warmup_s) / _STEP_S)
    per = evaluation.pool.slots_per_executor
    query = query_of(seen, evaluation.time_s)
    # The residual learned at other loads is left out: half of the slack covers it.
    query = replace(query, objective_s=_patience_s(seen, latency_s), residual=1.0)
    share = room_for(seen.place, evaluation, sizes[-1] * per)
    lead_s = startup_s + evaluation.pool.warmup_s
    paths = _arrivals(seen, evaluation, steps, lead_s, can_wait_and_see=query.objective_s >= _LATER_S + lead_s)
    candidates = [Candidate(_slots(evaluation, size, sizes[-1], steps, startup_s), share=share) for size in sizes]
    found: list[float] = rollout(query, paths, candidates, steps * _STEP_S, _STEP_S).late_share.max(axis=1).tolist()
    return found


def _patience_s(seen: ApplicationEvaluation, latency_s: float) -> float:
    """An interval and a batch, which every row may take, plus half of the remaining slack within this latency."""
    assert seen.workload is not None
    usual_s = min(seen.sample.interval_s + seen.workload.batch_s, latency_s)
    return usual_s + _KEPT * (latency_s - usual_s)


def _arrivals(
    seen: ApplicationEvaluation, evaluation: Evaluation, steps: int, lead_s: float, can_wait_and_see: bool
) -> Floats:
    """A trusted forecast. Otherwise a high quantile of what followed in such situations, or the recent level.

    If executors that are bought once a burst has lasted still come in time, only the newest rate counts, and it ends as
    bursts do (`burst_path`).
    """
    assert seen.workload is not None
    if seen.path is not None and seen.path.trusted:
        return np.asarray(path_of(seen, steps, _STEP_S, lead_s)[1])
    expected = seen.workload.expected_rows_per_s
    likely = np.asarray(with_analogues(seen, np.array([expected]), (_CAUTION,), steps, _STEP_S)[0])
    if not can_wait_and_see:
        return likely
    loads, place, pending = evaluation.loads, seen.place, seen.workload.pending_rows
    level = min(float(loads.newest[place]), expected)
    uncounted_s = max(0.0, evaluation.time_s - float(loads.last_count_s[place]))
    ends = burst_path(seen.expected.recent(place, _USUAL_S), level, pending, uncounted_s, steps)
    return np.asarray(np.minimum(likely, ends))


def burst_path(past: Floats, rows_per_s: float, waiting_rows: float, uncounted_s: float, steps: int) -> Floats:
    """Arrivals if the present level lasts for as long again as it has lasted, and then the usual load returns.

    All that is known about a new level is its age, which is as likely to lie in the first half of its life as in the
    second (Gott, 1993). If it lasts longer, its age grows, and so does what is expected of it. `past` has steps of
    `FINE_S`, oldest first, and the present step is not in it. A burst that pools cannot work off is about as old as the
    waiting rows took to arrive. Rows of the time since the last count are assumed, and they are part of what the
    level lasts for.

    >>> quiet, burst = np.full(20, 100.0), np.array([100.0] * 20 + [800.0])
    >>> burst_path(quiet, rows_per_s=800.0, waiting_rows=2800.0, uncounted_s=0.0, steps=4).tolist()  # 4 s old
    [800.0, 800.0, 100.0, 100.0]
    >>> burst_path(burst, rows_per_s=800.0, waiting_rows=9000.0, uncounted_s=0.0, steps=6).tolist()  # 10 s
    [800.0, 800.0, 800.0, 800.0, 800.0, 100.0]
    >>> burst_path(burst, rows_per_s=800.0, waiting_rows=9000.0, uncounted_s=3.0, steps=6).tolist()  # 7 s when counted
    [800.0, 800.0, 100.0, 100.0, 100.0, 100.0]
    """
    if not len(past):
        return np.full(steps, rows_per_s)
    usual = min(float(np.median(past)), rows_per_s)
    quiet = np.flatnonzero(past <= (usual + rows_per_s) / 2)
    buckets = len(past) - (int(quiet[-1]) + 1 if len(quiet) else 0)
    age_s = min(FINE_S * (buckets + 1), waiting_rows / max(rows_per_s - usual, 1e-9))
    left_s = age_s - 2 * uncounted_s  # as old as it was when it was counted, from then on
    return np.where(np.arange(steps) * _STEP_S < left_s, rows_per_s, usual)


def _slots(evaluation: Evaluation, first: int, last: int, steps: int, startup_s: float) -> Floats:
    """Usable slots at each step, with `first` executors requested now and `last` a little later."""
    pool = evaluation.pool
    per, now = pool.slots_per_executor, pool.registered
    at_once = ramp(now * per, max(first, now) * per, steps, _STEP_S, start=ExecutorStart(startup_s, pool.warmup_s))
    missing, late = max(last - max(first, now), 0), ExecutorStart(startup_s + _LATER_S, pool.warmup_s)
    later = ramp(0, missing * per, steps, _STEP_S, start=late)
    return np.asarray(at_once.usable + later.usable)
