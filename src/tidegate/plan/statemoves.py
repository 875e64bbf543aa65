"""Moves state partitions: a new executor gets its part at once, and a retiring executor is emptied first.

Spark runs a stateful task where its state is. A new executor therefore has nothing to do until state is moved to it,
and when an executor disappears, all its state is loaded elsewhere in one batch. The migration tables of the operators
proposer (Me-Stream, section 3.3) say where partitions go as long as they cover all executors. Otherwise partitions are
spread evenly.

An executor takes at most as many partitions per batch as it has slots. They load in parallel, so the batch grows by one
load time. The next ones follow when those are in place. Emptying an executor is not urgent, and those that stay are
busy with their own partitions, so they take half as many. A partition whose move failed is left alone for a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.domain import (
    ApplicationSample,
    Decision,
    ExecutorPool,
    MoveJudgement,
    MoveState,
    Outcome,
    Proposal,
    Reason,
    Receipt,
)
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan.operators.migration import MigrationTable
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.statespread import spread

_GIVE_UP_AFTER = 5
"""Batches that a partition may run elsewhere before its move counts as failed."""
_LEFT_ALONE_S = 300.0
"""How long a partition is left alone after a move that was refused or failed."""


@dataclass(slots=True)
class Asked:
    """A move that the world accepted, and the batches since."""

    executor: str
    asked_s: float
    batches: int = 0


@dataclass(slots=True)
class StateMemory:
    """Moves in progress, and until when partitions are left alone, by application and partition."""

    asked: dict[str, dict[int, Asked]] = field(default_factory=dict)
    left_alone_s: dict[str, dict[int, float]] = field(default_factory=dict)


class StateMoves(Proposer):
    """Assigns state partitions to executors, and reports whether earlier moves are in place."""

    name = "state"

    def __init__(self, memory: StateMemory | None = None) -> None:
        self.memory: StateMemory = memory or StateMemory()
        self.tables: Callable[[], Sequence[MigrationTable]] = tuple
        """The migration tables of the operators proposer, newest last."""
        self._seen_s = 0.0
        self._slots: dict[str, int] = {}
        self._even: dict[tuple[str, ...], bool] = {}
        """Cached results for the current slots. Recomputed after a restart, so not part of the memory."""
        self._moved: list[MoveJudgement] = []

    def watch(self, evaluation: Evaluation) -> None:
        """Follow the moves in progress. If the executor or the application is gone, the move did not fail."""
        self._seen_s, self._moved = evaluation.time_s, []
        there = {executor.id for executor in evaluation.pool.executors}
        for name in dict.fromkeys(
            [*self.memory.asked, *self.memory.left_alone_s]
        ):  # in the same order on every machine
            place = evaluation.places.get(name)
            sample = evaluation.samples[place] if place is not None else None
            if sample is None or not sample.running or sample.rebalancing:
                self.memory.asked.pop(name, None)
                self.memory.left_alone_s.pop(name, None)
            else:
                self._follow(sample, there, evaluation.time_s)

    def propose(self, evaluation: Evaluation) -> Plan:
        samples = [evaluation.samples[place] for place in evaluation.telling]
        movable = [sample for sample in samples if any(sample.state_places) and sample.running]
        reasons, proposals = [], []
        slots = {one.id: one.slots for one in evaluation.pool.executors if not one.retiring}
        if slots != self._slots:
            self._slots, self._even = slots, {}
        for sample in movable:
            if not sample.state_movable:
                if reason := _stuck(sample, evaluation.pool):
                    reasons.append(reason)
            elif not sample.rebalancing and (self.tables() or not self._is_even(sample.state_places)):
                found = self._moves(sample, movable, evaluation.pool)
                proposals += _proposals(sample, found, evaluation.pool)
        if self._moved:
            reasons.append(_told(self._moved))
        return Plan(tuple(proposals), tuple(reasons), moved=tuple(self._moved))

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        """Follow accepted moves. A move that fails later is reported too, and is left alone like a refused one."""
        answers = {answer.action: answer.outcome for answer in receipt.actions if isinstance(answer.action, MoveState)}
        for action in decision.actions:
            if isinstance(action, MoveState) and answers.get(action, Outcome.DONE) in {Outcome.DONE, Outcome.UNDER_WAY}:
                asked = self.memory.asked.setdefault(action.application, {})
                asked[action.partition] = Asked(action.executor, self._seen_s)
        for action, outcome in answers.items():
            if outcome in {Outcome.REFUSED, Outcome.FAILED}:
                self._leave_alone(action.application, action.partition)

    def _follow(self, sample: ApplicationSample, there: set[str], now_s: float) -> None:
        asked = self.memory.asked.get(sample.name, {})
        for partition, move in list(asked.items()):
            if move.executor not in there or partition >= len(sample.state_places):
                del asked[partition]
                continue
            move.batches += sum(batch.started_s >= move.asked_s for batch in sample.batches)
            arrived = sample.state_places[partition] == move.executor
            if not move.batches or (not arrived and move.batches < _GIVE_UP_AFTER):
                continue
            del asked[partition]
            action = MoveState(sample.name, partition, move.executor)
            self._moved.append(MoveJudgement(action, move.batches if arrived else None))
            if not arrived:
                self._leave_alone(sample.name, partition)
        alone = self.memory.left_alone_s.get(sample.name, {})
        for partition in [known for known, until_s in alone.items() if until_s <= now_s]:
            del alone[partition]

    def _leave_alone(self, application: str, partition: int) -> None:
        self.memory.left_alone_s.setdefault(application, {})[partition] = self._seen_s + _LEFT_ALONE_S
        self.memory.asked.get(application, {}).pop(partition, None)

    def _is_even(self, places: tuple[str, ...]) -> bool:
        """Is there nothing to move? Cached: with thousands of applications the answer is nearly always yes."""
        known = self._even.get(places)
        if known is None:
            known = self._even[places] = not spread(places, self._slots)
        return known

    def _moves(
        self, sample: ApplicationSample, others: Iterable[ApplicationSample], pool: ExecutorPool
    ) -> dict[int, str]:
        """The moves of this step. No executor gets more partitions than it can load at once."""
        retiring = {executor.id for executor in pool.executors if executor.retiring}
        slots = {executor.id: executor.slots for executor in pool.executors if not executor.retiring}
        asked = self.memory.asked.get(sample.name, {})
        now = [asked[place].executor if place in asked else there for place, there in enumerate(sample.state_places)]
        busy = Counter(there for other in others if other is not sample for there in other.state_places)
        wanted = self._by_table(sample, now, slots, pool)
        wanted |= spread([wanted.get(place, there) for place, there in enumerate(now)], slots, busy)
        loading = Counter(move.executor for move in asked.values())
        alone = self.memory.left_alone_s.get(sample.name, {})
        found: dict[int, str] = {}
        for partition, executor in sorted(wanted.items()):
            if executor == now[partition] or (partition in alone and now[partition] in slots):
                continue
            at_once = max(1, slots[executor] // 2) if now[partition] in retiring else slots[executor]
            if loading[executor] < at_once:
                loading[executor] += 1
                found[partition] = executor
        return found

    def _by_table(
        self, sample: ApplicationSample, now: Sequence[str], slots: Mapping[str, int], pool: ExecutorPool
    ) -> dict[int, str]:
        """The newest migration table, unless an executor is younger than the table."""
        tables = self.tables()
        if not tables or any(executor.since_s > tables[-1].time_s for executor in pool.executors):
            return {}
        stateful = {operator.name for batch in sample.batches[-1:] for operator in batch.operators if operator.stateful}
        return {
            instance.task: place.executor
            for instance, place in tables[-1].planned().items()
            if instance.application == sample.name
            and instance.operator in stateful
            and instance.task < len(now)
            and place.executor in slots
        }


def _proposals(sample: ApplicationSample, moves: Mapping[int, str], pool: ExecutorPool) -> list[Proposal]:
    """One reason for all partitions that move to the same executor."""
    retiring = {executor.id for executor in pool.executors if executor.retiring}
    held = Counter(sample.state_places)
    found = []
    for executor in dict.fromkeys(moves.values()):
        numbers = [partition for partition, there in moves.items() if there == executor]
        left = sorted({sample.state_places[number] for number in numbers} & retiring)
        names = ", ".join(map(str, numbers))
        why = f"executor {left[0]} retires" if left else f"it holds only {held[executor]} of {len(sample.state_places)}"
        code = "empty-executor" if left else "spread-state"
        reason = Reason(code, f"{sample.name}: state partitions {names} go to executor {executor}: {why}")
        found += [Proposal(MoveState(sample.name, number, executor), reason) for number in numbers]
    return found


def _stuck(sample: ApplicationSample, pool: ExecutorPool) -> Reason | None:
    """Report state that cannot be moved, because it leaves executors without work."""
    idle = [executor.id for executor in pool.executors if executor.id not in sample.state_places]
    if not idle or len(sample.state_places) < len(pool.executors):
        return None
    text = f"{sample.name}: executor {idle[0]} holds no state, and state cannot be moved here: see capabilities()"
    return Reason("hold-state-fixed", text)


def _told(moved: Sequence[MoveJudgement]) -> Reason:
    soon = sum(one.batches is not None and one.batches <= 2 for one in moved)
    return Reason("state-moves", f"{soon} of {len(moved)} state moves in place within two batches")
