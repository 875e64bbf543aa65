"""Makes one decision from many proposals.

Every proposer controls one knob. The arbiter asks them in the order of what their knobs cost: admission and shares take
effect at once, state moves within a batch, executors take seconds, and restarts pause the job. It then resolves
conflicts. Only this step's part of a plan is carried out; the next step plans again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate import extensions
from tidegate.domain import (
    Action,
    AddHost,
    Decision,
    MoveApplication,
    MoveState,
    Proposal,
    Reason,
    Receipt,
    RemoveHost,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
)
from tidegate.domain.codec import from_tree
from tidegate.domain.errors import InvalidInput
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.admission import Admission
from tidegate.plan.classes import Classes
from tidegate.plan.interval import BatchInterval
from tidegate.plan.operators import Operators
from tidegate.plan.outcomes import Outcomes
from tidegate.plan.patience import what_cannot_wait
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.pool import USUAL_CHANGES, PoolMemory, PoolSize
from tidegate.plan.restarts import hold_dear_restarts
from tidegate.plan.statemoves import StateMoves

BUILT_IN: tuple[type[Proposer], ...] = (Admission, Classes, PoolSize, BatchInterval, Operators, StateMoves)
"""Ordered by the cost of their knobs. State moves come last, because they depend on what the others decide."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """What is left of the proposals once the growth that can wait is postponed."""

    kept: tuple[Proposal, ...] = ()
    reasons: tuple[Reason, ...] = ()
    """Why a part was postponed."""
    replaced: frozenset[Reason] = frozenset()
    """The reasons that these replace."""


class Arbiter:
    """Asks all proposers and resolves conflicts between them."""

    def __init__(self, parts: dict[str, Any], proposers: Sequence[Proposer] | None = None) -> None:
        """`parts` holds the proposers' memories by name. Saved memories are restored, and new ones are added."""
        self.proposers = tuple(proposers) if proposers is not None else _all_proposers()
        for proposer in self.proposers:
            if proposer.memory is None:
                continue
            saved = parts.get(proposer.name)
            if isinstance(saved, dict):
                proposer.memory = from_tree(type(proposer.memory), saved)
            parts[proposer.name] = proposer.memory
        operators = next((proposer for proposer in self.proposers if isinstance(proposer, Operators)), None)
        self._pool = next((proposer for proposer in self.proposers if isinstance(proposer, PoolSize)), None)
        for proposer in self.proposers:
            if isinstance(proposer, StateMoves) and operators is not None:
                proposer.tables = lambda: operators.memory.tables

    def watch(self, evaluation: Evaluation) -> None:
        for proposer in self.proposers:
            proposer.watch(evaluation)

    def plan(self, evaluation: Evaluation) -> Plan:
        plans = [proposer.propose(evaluation) for proposer in self.proposers]
        proposals, settled = _settle([proposal for plan in plans for proposal in plan.proposals])
        too_dear: tuple[Reason, ...] = ()
        if any(proposal.pause_s > 0 for proposal in proposals):
            proposals, too_dear = hold_dear_restarts(proposals, evaluation)
        predictions = tuple([prediction for plan in plans for prediction in plan.predictions])
        names = tuple(dict.fromkeys([prediction.application for prediction in predictions]))
        put_off = self._put_off(proposals, evaluation, names)
        weighed = put_off.reasons + too_dear + settled
        needed: dict[str, float] = {}
        for plan in plans:
            needed |= plan.needed_slots
        return Plan(
            proposals=put_off.kept,
            reasons=weighed + tuple([one for one in self._reasons(plans) if one not in put_off.replaced]),
            needed_slots=needed,
            predictions=predictions,
            rolled_out=sum([plan.rolled_out for plan in plans]),
            moved=tuple([judgement for plan in plans for judgement in plan.moved]),
        )

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        for proposer in self.proposers:
            proposer.learn(decision, receipt)

    def _reasons(self, plans: list[Plan]) -> tuple[Reason, ...]:
        """The pool's reason first: it tells whether the load fits, which is what a reader of a quiet hour asks."""
        ordered = sorted(zip(self.proposers, plans, strict=True), key=lambda pair: pair[0] is not self._pool)
        return tuple([reason for _, plan in ordered for reason in plan.reasons])

    def _put_off(self, proposals: tuple[Proposal, ...], evaluation: Evaluation, names: tuple[str, ...]) -> PutOff:
        """Queueing is cheaper than executors, so the part of a growth that can wait is postponed."""
        if not proposals:
            return PutOff()
        kept: list[Proposal] = []
        reasons: list[Reason] = []
        replaced: set[Reason] = set()
        pool = self._pool.memory if self._pool is not None else PoolMemory()
        # Bursts that end before an executor has started need their executors in advance.
        past = pool.hindsight.least
        least = max(evaluation.executor_bounds[0], past.size if past is not None else 0)
        if pool.outcomes is not None:  # utility that is missing now cannot be made up for later
            least = max(least, pool.outcomes.worthwhile)
        calm = len(pool.changed) < USUAL_CHANGES
        for proposal in proposals:
            action = proposal.action
            if not isinstance(action, ScaleExecutors) or action.target <= max(evaluation.pool.requested, least):
                kept.append(proposal)
                continue
            needy = _needy(evaluation, pool.outcomes, names, action.target)
            now, reason = what_cannot_wait(proposal, evaluation, needy, pool.startup_s, in_parts=calm, least=least)
            kept += [now] if now is not None else []
            if reason is not proposal.reason:
                reasons.append(reason)
                replaced.add(proposal.reason)
        return PutOff(tuple(kept), tuple(reasons), frozenset(replaced))


def _needy(evaluation: Evaluation, outcomes: Outcomes | None, names: tuple[str, ...], target: int) -> tuple[str, ...]:
    """The applications that need a growth to this size, or all if it is not known which do."""
    if outcomes is None:
        return names
    places = evaluation.places
    budgets = {name: float(evaluation.budgets.allowed[places[name]]) for name in names if name in places}
    helped = outcomes.helped_by(evaluation.pool.requested, target, budgets)
    return tuple([name for name in names if name in helped]) or names


def proposers_named(names: Collection[str]) -> tuple[Proposer, ...]:
    """The proposers with these names, in the order in which they are asked.

    >>> [proposer.name for proposer in proposers_named({"pool", "classes"})]
    ['classes', 'pool']
    """
    known = _all_proposers()
    if unknown := sorted(set(names) - {proposer.name for proposer in known}):
        there = ", ".join(proposer.name for proposer in known)
        raise InvalidInput(f"no proposer is named {unknown[0]}; there are {there}")
    return tuple(proposer for proposer in known if proposer.name in names)


def _all_proposers() -> tuple[Proposer, ...]:
    installed = (extensions.make("proposers", name) for name in extensions.names("proposers"))
    return (*(kind() for kind in BUILT_IN), *installed)


def _settle(proposals: list[Proposal]) -> tuple[tuple[Proposal, ...], tuple[Reason, ...]]:
    """Keep one proposal per knob: the larger of two pool sizes, the tighter of two limits, otherwise the first."""
    kept: dict[tuple[object, ...], Proposal] = {}
    reasons: list[Reason] = []
    for proposal in proposals:
        knob = knob_of(proposal.action)
        rival = kept.get(knob)
        if rival is None or rival.action == proposal.action:
            kept.setdefault(knob, proposal)
            continue
        winner, loser = (proposal, rival) if _goes_before(proposal.action, rival.action) else (rival, proposal)
        kept[knob] = winner
        reasons.append(Reason("outweighed", f"{loser.action} gives way to {winner.action}: {winner.reason}"))
    return tuple(kept.values()), tuple(reasons)


def knob_of(action: Action) -> tuple[object, ...]:
    """The knob that an action turns. Of two actions on one knob only one can be carried out."""
    match action:
        case ScaleExecutors():
            return ("executors",)
        case SetAdmission(application=name) | SetBatchInterval(application=name):
            return (action.kind, name)
        case SetParallelism(application=name, operator=operator):
            return (action.kind, name, operator)
        case SetShare(group=group):
            return (action.kind, group)
        case MoveState(application=name, partition=partition):
            return (action.kind, name, partition)
        case MoveApplication(application=name):
            return (action.kind, name)
        case AddHost(host=host) | RemoveHost(host=host):
            return ("host", host)


def _goes_before(action: Action, rival: Action) -> bool:
    if isinstance(action, ScaleExecutors) and isinstance(rival, ScaleExecutors):
        return action.target > rival.target
    if isinstance(action, SetAdmission) and isinstance(rival, SetAdmission):
        limits = [float("inf") if one.rows_per_trigger is None else one.rows_per_trigger for one in (action, rival)]
        return limits[0] < limits[1]
    return False
