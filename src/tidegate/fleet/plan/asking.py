"""The guard of hosts and regions: changes that they may not make alone are held and become requests to the centre."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tidegate.domain import (
    Action,
    AddHost,
    Decision,
    MoveApplication,
    Outcome,
    Reason,
    Receipt,
    RemoveHost,
    Request,
    SetParallelism,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.guards import GuardContext, Verdict, WatchfulGuard

NAME = "centre"


@dataclass(frozen=True, slots=True)
class AloneRule:
    """What is allowed while the centre is silent."""

    silence_s: float = 15.0
    allowance: int = 2
    """How many tasks an operator may deviate from the number that was last agreed."""
    pause_s: float = 20.0
    """Minimum time between two changes of an application."""


@dataclass(slots=True)
class AloneMemory:
    """The tasks that were agreed, and the changes made without asking."""

    agreed: dict[str, int] = field(default_factory=dict)
    """`application.operator` → tasks that the centre last agreed to, or the initial number."""
    changes: dict[str, int] = field(default_factory=dict)
    """Restarts without a grant, by application, in total on this host. The centre charges tokens for them."""
    changed_s: dict[str, float] = field(default_factory=dict)


class Elastic(WatchfulGuard):
    """Rescales only operators that were submitted as elastic, and none beyond its maximum."""

    name = "elastic"

    def check(self, action: Action, context: GuardContext) -> Verdict:
        if context.standing is None or not isinstance(action, SetParallelism):
            return action, None
        most = context.standing.most_tasks.get(action.application, {}).get(action.operator)
        if most is None:
            return None, Reason(self.name, f"{action.operator} was not submitted as elastic, so it is not rescaled")
        if action.parallelism <= most:
            return action, None
        return replace(action, parallelism=most), Reason(self.name, f"{action.operator} may have at most {most} tasks")


class AskCentre(WatchfulGuard):
    """Passes what the centre has granted and, while the centre is silent, changes within the allowance. Holds the rest.

    A job outside a fleet has no standing, and nothing is held.
    """

    name = NAME

    def __init__(self, rule: AloneRule | None = None) -> None:
        self.memory: AloneMemory = AloneMemory()
        self._rule = rule or AloneRule()
        self._tasks: dict[str, int] = {}
        self._granted: tuple[Action, ...] = ()
        self._silent = False
        self._now_s = 0.0

    def watch(self, evaluation: Evaluation) -> None:
        standing = evaluation.standing
        self._now_s = evaluation.time_s
        self._granted = standing.granted if standing is not None else ()
        self._silent = standing is not None and standing.silent_s > self._rule.silence_s
        for sample in evaluation.samples:
            for operator in sample.batches[-1].operators if sample.batches else ():
                self._tasks[_key(sample.name, operator.name)] = operator.parallelism
                self.memory.agreed.setdefault(_key(sample.name, operator.name), operator.parallelism)

    def check(self, action: Action, context: GuardContext) -> Verdict:
        standing = context.standing
        if standing is None or not isinstance(action, SetParallelism | MoveApplication | AddHost | RemoveHost):
            return action, None
        if not isinstance(action, SetParallelism):
            return None, Reason(NAME, "requested from the centre, which decides")
        if action in self._granted:
            return action, None
        if not self._silent:
            text = f"requested {action.parallelism} tasks of {action.operator} from the centre, which decides"
            return None, Reason(NAME, text)
        return self._alone(action)

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        taken_up = {answer.action for answer in receipt.actions if answer.outcome in {Outcome.DONE, Outcome.UNDER_WAY}}
        changed = {one.application for one in decision.actions if isinstance(one, SetParallelism) and one in taken_up}
        for action in decision.actions:
            if isinstance(action, SetParallelism) and action in self._granted and action in taken_up:
                self.memory.agreed[_key(action.application, action.operator)] = action.parallelism
                changed.discard(action.application)
        for application in changed:
            self.memory.changes[application] = self.memory.changes.get(application, 0) + 1
            self.memory.changed_s[application] = self._now_s

    def _alone(self, action: SetParallelism) -> Verdict:
        key, rule = _key(action.application, action.operator), self._rule
        now = self._tasks.get(key)
        agreed = self.memory.agreed.get(key, now)
        if now is None or agreed is None:
            return None, Reason(NAME, "the centre is silent, and too little is known to change anything without it")
        since_s = self._now_s - self.memory.changed_s.get(action.application, float("-inf"))
        if since_s < rule.pause_s:
            text = (
                f"the centre is silent, and the last change without it was {since_s:.0f} s ago; the next may follow in "
            )
            return None, Reason(NAME, text + f"{rule.pause_s - since_s:.0f} s")
        allowed = min(max(action.parallelism, agreed - rule.allowance, 1), agreed + rule.allowance)
        if allowed == now:
            text = f"the centre is silent; without it, at most {rule.allowance} tasks may be added or removed"
            return None, Reason(NAME, text)
        if allowed == action.parallelism:
            return action, None
        return replace(action, parallelism=allowed), Reason(NAME, f"{allowed} tasks allowed while the centre is silent")


def requests_of(decision: Decision | None, sender: str, most: int = 64) -> tuple[Request, ...]:
    """The requests that a decision leaves to the centre: urgent ones first, then by value."""
    if decision is None:
        return ()
    asked = [held for held in decision.held if held.guard == NAME]
    asked.sort(key=lambda held: (not held.urgent, -held.score, str(held.wanted)))
    return tuple(
        Request(sender, held.wanted, _why(held.wanted, decision.reasons), held.score, held.urgent)
        for held in asked[:most]
    )


def _why(action: Action, reasons: tuple[Reason, ...]) -> str:
    """The first reason that mentions the subject of the action."""
    words: tuple[str, ...]
    match action:
        case AddHost(region=subject) | RemoveHost(host=subject):
            words = (subject,)
        case SetParallelism(application=application, operator=operator):
            words = (application, operator)
        case _:
            words = (str(getattr(action, "application", "")),)
    told = [reason for reason in reasons if all(_mentions(reason.text, word) for word in words)]
    return next((reason.text for reason in sorted(told, key=lambda one: one.code.startswith("hold"))), "")


def _mentions(text: str, name: str) -> bool:
    """Is the whole name in the text? `app-1` is not mentioned by a text about `app-10`."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _key(application: str, operator: str) -> str:
    return f"{application}.{operator}"
