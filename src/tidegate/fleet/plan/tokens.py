"""Tokens limit how often an application is disturbed. Rescues have their own tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.domain import Action, Decision, MoveApplication, Outcome, Reason, Receipt, SetParallelism
from tidegate.evaluate.evaluation import Evaluation
from tidegate.managers.tokenbucket import TokenBucket, TokenRule
from tidegate.plan.guards import GuardContext, Verdict, WatchfulGuard, moves_a_running_one


@dataclass(slots=True)
class TokenMemory:
    """Buckets that are not full, by application, and the changes that hosts have made alone so far."""

    buckets: dict[str, TokenBucket] = field(default_factory=dict)
    rescue: dict[str, TokenBucket] = field(default_factory=dict)
    alone: dict[str, int] = field(default_factory=dict)


class Tokens(WatchfulGuard):
    """An application is moved or rescaled at most B + r·T times in T seconds, plus another B + r·T for rescues.

    Rescues are urgent requests for an application that misses its objective. Several changes of one application in
    one decision are one restart and take one token. Changes that a host made alone are charged afterwards.
    """

    name = "tokens"

    def __init__(self, rule: TokenRule) -> None:
        self.memory: TokenMemory = TokenMemory()
        self._rule = rule
        self._now_s = 0.0
        self._running: frozenset[str] = frozenset()

    def watch(self, evaluation: Evaluation) -> None:
        fleet, memory = evaluation.fleet, self.memory
        if fleet is None:
            return
        self._now_s = evaluation.time_s
        self._running = frozenset([one.name for one in fleet.applications if one.host is not None])
        for buckets in (memory.buckets, memory.rescue):
            for name, bucket in list(buckets.items()):
                if bucket.left(self._rule, self._now_s) >= self._rule.size or name not in fleet.by_name:
                    del buckets[name]
        alone = memory.alone
        for application in fleet.applications:
            done, name = application.changes_alone, application.name
            if not done and name not in alone:
                continue
            known = alone.get(name, 0)
            if done > known:
                self._bucket(memory.buckets, name).charge(self._rule, self._now_s, done - known)
            if done != known:  # less: it was started again elsewhere, and its count restarted
                alone[name] = done

    def check(self, action: Action, context: GuardContext) -> Verdict:
        if not isinstance(action, SetParallelism) and not moves_a_running_one(action, context):
            return action, None
        assert isinstance(action, SetParallelism | MoveApplication)
        name = action.application
        if self._left(self.memory.buckets, name) >= 1.0:
            return action, None
        if self._rescues(action, context) and self._left(self.memory.rescue, name) >= 1.0:
            return action, None
        wait_s = (1.0 - self._left(self.memory.buckets, name)) * self._rule.refill_s
        return None, Reason("tokens", f"{name} has no tokens left; the next one is due in {wait_s:.0f} s")

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        refused = {answer.action for answer in receipt.actions if answer.outcome in {Outcome.REFUSED, Outcome.FAILED}}
        disturbed = {
            action.application: action
            for action in decision.actions
            if isinstance(action, SetParallelism | MoveApplication) and action not in refused
        }
        for name in disturbed.keys() & self._running:
            if self._left(self.memory.buckets, name) >= 1.0:
                self._bucket(self.memory.buckets, name).take(self._rule, self._now_s)
            else:
                self._bucket(self.memory.rescue, name).take(self._rule, self._now_s)

    def left(self) -> dict[str, float]:
        """Remaining tokens of the applications whose bucket is not full."""
        return {name: round(bucket.tokens, 2) for name, bucket in self.memory.buckets.items()}

    def _rescues(self, action: SetParallelism | MoveApplication, context: GuardContext) -> bool:
        known = context.fleet.by_name.get(action.application) if context.fleet is not None else None
        return action in context.urgent and known is not None and known.violated

    def _left(self, buckets: dict[str, TokenBucket], name: str) -> float:
        return buckets[name].tokens if name in buckets else self._rule.size

    def _bucket(self, buckets: dict[str, TokenBucket], name: str) -> TokenBucket:
        return buckets.setdefault(name, TokenBucket(self._rule.size, self._now_s))
