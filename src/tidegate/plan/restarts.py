"""Restarts must be worth their pause: rows keep arriving meanwhile, and some will be over the objective.

A proposal that restarts an application is rolled out with its pause and compared with the application as it is. It is
kept if it costs almost nothing of the error budget, or less than carrying on. Rows of a QoS table and QoS graphs count
as they do for the size of the pool.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from tidegate.domain import Proposal, Reason, SetParallelism
from tidegate.evaluate.evaluation import ApplicationEvaluation, Evaluation
from tidegate.model.rollout import Candidate, rollout
from tidegate.plan.demand import path_of, query_of, room_for
from tidegate.plan.price import price_of_lateness, price_of_row, price_of_utility
from tidegate.plan.requirements import requirements_of

_STEP_S = 2.0
_LEAST_HORIZON_S, _MOST_HORIZON_S = 120.0, 600.0
_HARMLESS = 0.05
"""Price up to which a pause needs no further justification: a ninth of the error budget."""
_URGENT = frozenset({"rescale-failures", "reverse"})
"""Reasons that justify a restart at any cost: tasks fail, or the last change did harm."""


def hold_dear_restarts(
    proposals: tuple[Proposal, ...], evaluation: Evaluation
) -> tuple[tuple[Proposal, ...], tuple[Reason, ...]]:
    """Drop the restarts that cost more than they gain, each with a reason."""
    by_name: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        if isinstance(proposal.action, SetParallelism) and proposal.pause_s > 0 and proposal.reason.code not in _URGENT:
            by_name.setdefault(proposal.action.application, []).append(proposal)
    reasons: list[Reason] = []
    held: list[Proposal] = []
    for name, changes in by_name.items():
        place = evaluation.places.get(name)
        if place is None or not evaluation.usable[place]:
            continue
        reason = _too_dear(evaluation.of(place), changes, evaluation)
        if reason is not None:
            held += changes
            reasons.append(reason)
    return tuple(proposal for proposal in proposals if proposal not in held), tuple(reasons)


def _too_dear(seen: ApplicationEvaluation, changes: list[Proposal], evaluation: Evaluation) -> Reason | None:
    profiles, pool = seen.detail.profiles, evaluation.pool
    after = {one.action.operator: one.action.parallelism for one in changes if isinstance(one.action, SetParallelism)}
    needs = requirements_of(seen, evaluation)
    query = needs.asked_of(query_of(seen, evaluation.time_s))
    tasks = tuple(after.get(profile.name, profile.parallelism) for profile in profiles) if query.tasks else None
    pause_s = max(one.pause_s for one in changes)
    wished_s = max(4 * pause_s + 2 * seen.objective.latency_s, _LEAST_HORIZON_S)
    steps = ceil(min(wished_s, _MOST_HORIZON_S) / _STEP_S)
    slots = np.full(steps, float(pool.slots))
    share = room_for(seen.place, evaluation, pool.slots)
    candidates = [Candidate(slots, share=share), Candidate(slots, share=share, tasks=tasks, pause_s=pause_s)]
    mean = path_of(seen, steps, _STEP_S, _STEP_S)[1]
    found = rollout(query, mean, candidates, steps * _STEP_S, _STEP_S)
    price = price_of_lateness(seen, evaluation, found.late_rows, found.rows)
    for number, row in enumerate(needs.rows):
        over_rows = found.over_share[number] * found.rows
        price = np.maximum(price, price_of_row(row, seen, evaluation, over_rows, found.rows))
    if needs.graphs:
        utility = needs.long_run_utility(query, mean, candidates, _STEP_S)
        price = price + price_of_utility(utility, seen, evaluation)
    going_on, restarted = price[:, 0].tolist()
    if restarted <= max(_HARMLESS, going_on):
        return None
    counted = ", counting its QoS table and graphs" if needs else ""
    text = (
        f"{seen.name}: a restart of {pause_s:.1f} s would put {found.late_share[1, 0]:.1%} of the rows over "
        f"{seen.objective.latency_s:g} s, against {found.late_share[0, 0]:.1%} without it{counted}: not now"
    )
    return Reason("hold-pause", text)
