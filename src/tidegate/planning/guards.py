"""Guards: what keeps a wanted action from doing harm. Each says its name when it holds or shortens something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tidegate.domain import (
    Action,
    Held,
    Proposal,
    Reason,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
)
from tidegate.domain.observation import ExecutorPool
from tidegate.domain.policy import Policy

_HOUR_S = 3600.0


@dataclass(slots=True)
class GuardMemory:
    """When the pool last changed, and the disruptions of the last hour."""

    grew_s: float | None = None
    changed_s: float | None = None
    disruptions_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GuardContext:
    """What guards look at."""

    time_s: float
    pool: ExecutorPool
    policy: Policy
    memory: GuardMemory
    limited: frozenset[str] = frozenset()
    """Applications whose sources take a limit through a restart only."""


Verdict = tuple[Action | None, Reason | None]
"""The action that may go on (None: none), and why it is not the one that was wanted."""
Guard = Callable[[Action, GuardContext], Verdict]


def scalable(action: Action, context: GuardContext) -> Verdict:
    """Somebody else may rule the size of the pool."""
    if isinstance(action, ScaleExecutors) and not context.pool.scalable:
        return None, Reason("scalable", "the executor pool is not ours to scale here (see dynamic_allocation)")
    return action, None


def bounds(action: Action, context: GuardContext) -> Verdict:
    """Never outside the policy's minimum and maximum."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    rule = context.policy.executors
    allowed = min(max(action.target, rule.min), rule.max)
    if allowed == action.target:
        return action, None
    reason = Reason("bounds", f"{action.target} executors wanted, {rule.min} to {rule.max} allowed")
    return (None if allowed == context.pool.requested else replace(action, target=allowed)), reason


def step_size(action: Action, context: GuardContext) -> Verdict:
    """Large changes in several steps: cold executors slow warm ones down, and a mistake stays small."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    rule, now = context.policy.executors, context.pool.requested
    allowed = min(max(action.target, now - rule.step_down), now + rule.step_up)
    # The bounds are absolute: a pool that is outside them goes back in one step.
    allowed = min(max(allowed, rule.min), rule.max)
    if allowed == action.target:
        return action, None
    return replace(action, target=allowed), Reason("step-size", f"{allowed} first, {action.target} wanted")


def cool_down(action: Action, context: GuardContext) -> Verdict:
    """Give the last change time to show its effect."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    rule, memory = context.policy.guards, context.memory
    growing = action.target > context.pool.requested
    since, wait_s = (memory.grew_s, rule.cool_down_up_s) if growing else (memory.changed_s, rule.cool_down_down_s)
    if since is None or context.time_s - since >= wait_s:
        return action, None
    left_s = wait_s - (context.time_s - since)
    return None, Reason("cool-down", f"the last change is {context.time_s - since:.0f} s old; {left_s:.0f} s to go")


def disruption_budget(action: Action, context: GuardContext) -> Verdict:
    """Only so many shrinks and restarts an hour. Growing disturbs nobody and may be a rescue: it always passes."""
    if not is_disruption(action, context):
        return action, None
    spent = [time_s for time_s in context.memory.disruptions_s if time_s > context.time_s - _HOUR_S]
    limit = context.policy.guards.disruptions_per_hour
    if len(spent) < limit:
        return action, None
    return None, Reason("disruption-budget", f"{len(spent)} disruptions in the last hour, {limit} allowed")


def is_disruption(action: Action, context: GuardContext) -> bool:
    """Does the action unsettle a running job?"""
    if isinstance(action, ScaleExecutors):
        return action.target < context.pool.requested
    if isinstance(action, SetAdmission):
        return action.application in context.limited
    return isinstance(action, SetParallelism | SetBatchInterval)


GUARDS: dict[str, Guard] = {
    "scalable": scalable,
    "bounds": bounds,
    "step-size": step_size,
    "cool-down": cool_down,
    "disruption-budget": disruption_budget,
}


def guard(proposals: tuple[Proposal, ...], context: GuardContext) -> tuple[tuple[Action, ...], tuple[Held, ...]]:
    """Pass every proposal through every guard; remember what got through."""
    actions: list[Action] = []
    held: list[Held] = []
    for proposal in proposals:
        action: Action | None = proposal.action
        for name, check in GUARDS.items():
            if action is None:
                break
            wanted = action
            action, reason = check(action, context)
            if reason is not None:
                held.append(Held(name, wanted, reason))
        if action is not None:
            actions.append(action)
            _remember(action, context)
    return tuple(actions), tuple(held)


def _remember(action: Action, context: GuardContext) -> None:
    memory, now_s = context.memory, context.time_s
    if is_disruption(action, context):
        memory.disruptions_s = [time_s for time_s in memory.disruptions_s if time_s > now_s - _HOUR_S] + [now_s]
    if isinstance(action, ScaleExecutors):
        memory.changed_s = now_s
        if action.target > context.pool.requested:
            memory.grew_s = now_s
