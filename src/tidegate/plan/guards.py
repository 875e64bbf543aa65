"""Guards keep proposed actions from doing harm. Each gives its name when it holds back or reduces an action."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate import extensions
from tidegate.domain import (
    Action,
    AddHost,
    Decision,
    FleetSample,
    Held,
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
    Standing,
)
from tidegate.domain.calendar import duration_text
from tidegate.domain.observation import ExecutorPool
from tidegate.domain.policy import Policy
from tidegate.domain.rules import Knob
from tidegate.evaluate.evaluation import Evaluation

_HOUR_S = 3600.0
_LONGEST_GAP_S = 60.0
_KNOBS: dict[type[Action], Knob] = {
    ScaleExecutors: "executors",
    SetAdmission: "admission",
    SetParallelism: "parallelism",
    SetBatchInterval: "interval",
    SetShare: "shares",
    MoveState: "state",
    MoveApplication: "moves",
    AddHost: "hosts",
    RemoveHost: "hosts",
}


@dataclass(slots=True)
class GuardMemory:
    """When the pool last changed, the disruptions of the last hour, and today's cost so far."""

    grew_s: float | None = None
    changed_s: float | None = None
    disruptions_s: list[float] = field(default_factory=list)
    day_s: float = 0.0
    """When the current budget day began."""
    spent_s: float = 0.0
    """Executor-seconds since then."""
    seen_s: float | None = None


@dataclass(frozen=True, slots=True)
class GuardContext:
    """What guards can see."""

    time_s: float
    pool: ExecutorPool
    policy: Policy
    memory: GuardMemory
    spent_today: float = 0.0
    """Executor-seconds since the policy's midnight."""
    fleet: FleetSample | None = None
    standing: Standing | None = None
    urgent: frozenset[Action] = frozenset()
    """Proposals that help an objective that is being missed."""


Verdict = tuple[Action | None, Reason | None]
"""The action that may proceed, or None, and why it differs from the proposed one."""
Guard = Callable[[Action, GuardContext], Verdict]


class WatchfulGuard(ABC):
    """A guard with memory. As for proposers, the memory changes only in `watch` and `learn` and is kept in `memory`."""

    name: str
    memory: Any = None

    def watch(self, evaluation: Evaluation) -> None:  # noqa: B027
        """Remember what was observed. Called at every step, in every mode, before anything is checked."""

    @abstractmethod
    def check(self, action: Action, context: GuardContext) -> Verdict: ...

    def learn(self, decision: Decision, receipt: Receipt) -> None:  # noqa: B027
        """Remember the outcome of a decision that was carried out."""


def scalable(action: Action, context: GuardContext) -> Verdict:
    """Hold back scaling where something else controls the size of the pool."""
    if isinstance(action, ScaleExecutors) and not context.pool.scalable:
        return None, Reason("scalable", "Tidegate may not scale this pool (see dynamic_allocation in the policy)")
    return action, None


def knobs(action: Action, context: GuardContext) -> Verdict:
    """Turn only the knobs that the policy allows."""
    knob = _KNOBS[type(action)]
    if getattr(context.policy.knobs, knob):
        return action, None
    return None, Reason("knobs", f"the policy forbids it (knobs.{knob}: false)")


def bounds(action: Action, context: GuardContext) -> Verdict:
    """Stay within the policy's minimum and maximum."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    rule = context.policy.executors
    allowed = min(max(action.target, rule.min), rule.max)
    if allowed == action.target:
        return action, None
    reason = Reason("bounds", f"{action.target} executors wanted, {rule.min} to {rule.max} allowed")
    return (None if allowed == context.pool.requested else replace(action, target=allowed)), reason


def scheduled_minimum(action: Action, context: GuardContext) -> Verdict:
    """Never go below a scheduled minimum while its period is active."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    scheduled = context.policy.scheduled_minimum(context.time_s)
    if scheduled is None or action.target >= scheduled.executors:
        return action, None
    least = scheduled.executors
    span = f"for {duration_text(scheduled.lasts_s)} from {scheduled.cron!r}"
    reason = Reason("scheduled-minimum", f"{action.target} executors wanted; at least {least} are scheduled {span}")
    return (None if least == context.pool.requested else replace(action, target=least)), reason


def budget(action: Action, context: GuardContext) -> Verdict:
    """Never use more executors than the day's budget pays for. The minimum is always kept."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    affordable = context.policy.affordable_executors(context.time_s, context.spent_today)
    if affordable is None or action.target <= affordable:
        return action, None
    rule = context.policy.executors
    spent = f"{context.policy.cost(context.spent_today):.2f} of {rule.budget_per_day:g} spent today"
    reason = Reason("budget", f"{action.target} executors wanted; {spent}: at most {affordable} are affordable now")
    return (None if affordable == context.pool.requested else replace(action, target=affordable)), reason


def freeze(action: Action, context: GuardContext) -> Verdict:
    """No disruptive actions during a freeze. Growth, admission limits and shares continue: they pause nothing."""
    frozen = context.policy.frozen(context.time_s)
    if frozen is None:
        return action, None
    growing = isinstance(action, AddHost) or (
        isinstance(action, ScaleExecutors) and action.target > context.pool.requested
    )
    moving = isinstance(action, MoveState) or moves_a_running_one(action, context)
    if is_disruption(action, context) or moving or (growing and not frozen.growth):
        return None, Reason("freeze", str(frozen))
    return action, None


def step_size(action: Action, context: GuardContext) -> Verdict:
    """At most halve the pool at once, or grow it fourfold, but always allow two executors.

    A shrink can be completed a little later at no risk. A growth that is made in parts comes too late for a burst.
    """
    if not isinstance(action, ScaleExecutors):
        return action, None
    now = context.pool.requested
    allowed = min(max(action.target, now - max(2, now // 2)), now + max(2, 3 * now))
    # The bounds are absolute: a pool outside them returns in one step.
    policy, time_s = context.policy, context.time_s
    allowed = min(max(allowed, policy.least_executors(time_s)), policy.most_executors(time_s, context.spent_today))
    if allowed == action.target:
        return action, None
    reason = Reason("step-size", f"{action.target} executors wanted; one step may go to {allowed}")
    return replace(action, target=allowed), reason


def cool_down(action: Action, context: GuardContext) -> Verdict:
    """Give the last change time to take effect."""
    if not isinstance(action, ScaleExecutors):
        return action, None
    rule, memory = context.policy.guards, context.memory
    growing = action.target > context.pool.requested
    since, wait_s = (memory.grew_s, rule.cool_down_up_s) if growing else (memory.changed_s, rule.cool_down_down_s)
    if since is None or context.time_s - since >= wait_s:
        return action, None
    ago_s = context.time_s - since
    return None, Reason("cool-down", f"the last change was {ago_s:.0f} s ago; wait {wait_s - ago_s:.0f} s more")


def disruption_budget(action: Action, context: GuardContext) -> Verdict:
    """Limit the shrinks and restarts per hour. Growth always passes: it disturbs nobody and may be a rescue.

    The centre of a fleet only grants restarts. It uses tokens, and the host that restarts an application counts it.
    """
    if context.fleet is not None or not is_disruption(action, context):
        return action, None
    spent = [time_s for time_s in context.memory.disruptions_s if time_s > context.time_s - _HOUR_S]
    limit = context.policy.guards.disruptions_per_hour
    if len(spent) < limit:
        return action, None
    return None, Reason("disruption-budget", f"{len(spent)} disruptions in the last hour, {limit} allowed")


def is_disruption(action: Action, context: GuardContext) -> bool:
    """Does the action disrupt a running job?"""
    if isinstance(action, ScaleExecutors):
        return action.target < context.pool.requested
    return isinstance(action, SetParallelism | SetBatchInterval)


def moves_a_running_one(action: Action, context: GuardContext) -> bool:
    """Does the action stop a running application? One that has no host, or has lost it, is only started."""
    if not isinstance(action, MoveApplication) or context.fleet is None:
        return False
    known = context.fleet.by_name.get(action.application)
    return known is not None and known.host is not None


GUARDS: dict[str, Guard] = {
    "scalable": scalable,
    "knobs": knobs,
    "bounds": bounds,
    "scheduled-minimum": scheduled_minimum,
    "budget": budget,
    # After the bounds, because they can turn a growth into a shrink.
    "freeze": freeze,
    "step-size": step_size,
    "cool-down": cool_down,
    "disruption-budget": disruption_budget,
}


def all_guards() -> dict[str, Guard]:
    """The built-in guards, followed by plug-ins."""
    plugged_in: dict[str, Guard] = {name: extensions.part("guards", name) for name in extensions.names("guards")}
    return GUARDS | plugged_in


def watch(memory: GuardMemory, time_s: float, pool: ExecutorPool, policy: Policy) -> None:
    """Count the day's executor-seconds for its budget."""
    day_s = policy.day_start_s(time_s)
    if day_s != memory.day_s:
        memory.day_s, memory.spent_s = day_s, 0.0
    if memory.seen_s is not None and 0 < time_s - memory.seen_s < _LONGEST_GAP_S:
        memory.spent_s += pool.registered * (time_s - max(memory.seen_s, day_s))
    memory.seen_s = time_s


def guard(
    proposals: tuple[Proposal, ...], context: GuardContext, guards: Mapping[str, Guard] = GUARDS
) -> tuple[tuple[Action, ...], tuple[Held, ...]]:
    """Pass every proposal through every guard. Nothing is remembered: the result may be only a recommendation."""
    actions: list[Action] = []
    held: list[Held] = []
    for proposal in proposals:
        action: Action | None = proposal.action
        for name, check in guards.items():
            if action is None:
                break
            wanted = action
            action, reason = check(action, context)
            if reason is not None:
                held.append(Held(name, wanted, reason, proposal.score, proposal.urgent))
        if action is not None:
            actions.append(action)
    return tuple(actions), tuple(held)


def remember(action: Action, context: GuardContext) -> None:
    """Count an action that was carried out, in the context in which it was decided."""
    memory, now_s = context.memory, context.time_s
    if is_disruption(action, context):
        memory.disruptions_s = [time_s for time_s in memory.disruptions_s if time_s > now_s - _HOUR_S] + [now_s]
    if isinstance(action, ScaleExecutors):
        memory.changed_s = now_s
        if action.target > context.pool.requested:
            memory.grew_s = now_s
