"""The arbiter asks everybody, settles conflicts, and puts off the growth that can wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tidegate.domain import (
    Action,
    AddHost,
    Decision,
    InvalidInput,
    MoveApplication,
    MoveState,
    Prediction,
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
from tidegate.domain.codec import to_tree
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.plan import arbiter
from tidegate.plan.arbiter import BUILT_IN, Arbiter, knob_of, proposers_named
from tidegate.plan.hindsight import Hindsight, Need
from tidegate.plan.operators import Operators
from tidegate.plan.outcomes import Outcomes
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.pool import PoolMemory, PoolSize
from tidegate.plan.statemoves import StateMoves
from tidegate.testing import evaluations

PATIENT = Policy.model_validate({"objective": {"latency_s": 600}, "executors": {"min": 1, "max": 8}})
HURRIED = Policy.model_validate({"objective": {"latency_s": 1}, "executors": {"min": 1, "max": 8}})


@dataclass
class Count:
    """A memory."""

    seen: int = 0


class Fixed(Proposer):
    """Always proposes the same, and remembers what it was told."""

    def __init__(self, *actions: Action, name: str = "fixed", **said: Any) -> None:
        self.name, self.learned, self.memory = name, [], Count()
        pause_s = said.pop("pause_s", 0.0)
        proposals = tuple(Proposal(action, Reason(name, f"says {name}"), pause_s=pause_s) for action in actions)
        self.said = Plan(proposals, (Reason(name, "looked"),), **said)

    def watch(self, evaluation: Evaluation) -> None:
        self.memory.seen += 1

    def propose(self, evaluation: Evaluation) -> Plan:
        return self.said

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        self.learned.append((decision, receipt))


def last(policy: Policy = PATIENT, rows: int = 200) -> Evaluation:
    *_, found = evaluations(policy, lambda step: rows)
    return found


def settled(*actions: Action) -> tuple[list[Action], list[str]]:
    """What two or more proposers agree on, and why."""
    plan = Arbiter({}, [Fixed(action, name=f"p{place}") for place, action in enumerate(actions)]).plan(last())
    outweighed = [str(reason) for reason in plan.reasons if reason.code == "outweighed"]
    return [proposal.action for proposal in plan.proposals], outweighed


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        (ScaleExecutors(1), ScaleExecutors(2), ScaleExecutors(2)),
        (SetAdmission("a", 100), SetAdmission("a", 50), SetAdmission("a", 50)),
        (SetAdmission("a", None), SetAdmission("a", 50), SetAdmission("a", 50)),
        (SetShare("a", 0.2), SetShare("a", 0.3), None),
        (SetBatchInterval("a", 1.0), SetBatchInterval("a", 2.0), None),
        (MoveState("a", 0, "1"), MoveState("a", 0, "2"), None),
        (MoveApplication("a", "east-1"), MoveApplication("a", "east-2"), None),
        (AddHost("east-1", "east"), RemoveHost("east-1"), None),
    ],
)
def test_one_knob_is_turned_once(one: Action, other: Action, winner: Action | None) -> None:
    """The larger of two sizes, the tighter of two limits, otherwise the first: whoever is asked first."""
    for first, second in ((one, other), (other, one)):
        kept = winner or first
        loser = second if kept == first else first
        by = "p0" if kept == first else "p1"
        assert settled(first, second) == ([kept], [f"{loser} gives way to {kept}: says {by}"])


def test_the_same_wish_twice_is_no_conflict() -> None:
    assert settled(SetShare("a", 0.2), SetShare("a", 0.2)) == ([SetShare("a", 0.2)], [])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SetAdmission("a", 100), SetAdmission("b", 50)),
        (SetAdmission("a", 100), SetBatchInterval("a", 2.0)),
        (SetParallelism("a", "count", 4), SetParallelism("a", "split", 2)),
        (SetParallelism("a", "count", 4), SetParallelism("b", "count", 2)),
        (MoveState("a", 0, "1"), MoveState("a", 1, "1")),
        (MoveState("a", 0, "1"), MoveState("b", 0, "1")),
        (AddHost("east-1", "east"), AddHost("east-2", "east")),
        (MoveApplication("a", "east-1"), MoveApplication("b", "east-1")),
        (SetShare("a", 0.2), SetShare("b", 0.2)),
        (SetShare("a", 0.2), MoveApplication("a", "east-1")),
    ],
)
def test_two_knobs_are_turned_together(one: Action, other: Action) -> None:
    assert settled(one, other) == ([one, other], [])
    assert knob_of(one) != knob_of(other)


def test_everything_that_was_said_is_in_the_plan() -> None:
    prediction = Prediction("words", 60.0, 1.0, 0.0, 2)
    one = Fixed(SetShare("a", 0.2), name="one", needed_slots={"a": 1.0}, predictions=(prediction,), rolled_out=2)
    other = Fixed(name="other", needed_slots={"b": 2.0}, rolled_out=3)
    plan = Arbiter({}, [one, other]).plan(last())
    assert [str(reason) for reason in plan.reasons] == ["looked", "looked"]
    assert (plan.needed_slots, plan.predictions, plan.rolled_out) == ({"a": 1.0, "b": 2.0}, (prediction,), 5)


def test_everybody_watches_and_learns_and_memories_are_saved_by_name() -> None:
    parts: dict[str, Any] = {"one": {"seen": 7}}
    one, other = Fixed(name="one"), Fixed(name="other")
    arbiter = Arbiter(parts, [one, other])
    assert one.memory == Count(7), "a saved memory is restored"
    arbiter.watch(last())
    assert (one.memory, other.memory) == (Count(8), Count(1))
    assert parts == {"one": one.memory, "other": other.memory}
    decision = Decision(1, 0.0, (), (), ())
    arbiter.learn(decision, Receipt())
    assert one.learned == other.learned == [(decision, Receipt())]


def test_a_proposer_without_memory_leaves_none() -> None:
    class Forgetful(Fixed):
        def watch(self, evaluation: Evaluation) -> None: ...

    proposer, parts = Forgetful(name="forgetful"), {}
    proposer.memory = None
    Arbiter(parts, [proposer])
    assert parts == {}


def test_state_moves_see_the_tables_of_the_operators() -> None:
    operators, moves = Operators(), StateMoves()
    Arbiter({}, [operators, moves])
    assert moves.tables() is operators.memory.tables
    alone = StateMoves()
    Arbiter({}, [alone])
    assert not alone.tables()


def growth(policy: Policy, target: int, rows: int, pool: PoolMemory | None = None) -> tuple[list[int], list[str]]:
    """What is left of a growth to this size, and the reasons."""
    predicted = Prediction("words", 60.0, 1.0, 0.0, target)
    proposers: list[Proposer] = [Fixed(ScaleExecutors(target), predictions=(predicted,))]
    parts: dict[str, Any] = {}
    if pool is not None:

        class Quiet(PoolSize):
            def propose(self, evaluation: Evaluation) -> Plan:
                return Plan()

        proposers.append(Quiet())
        parts["pool"] = to_tree(pool)
    plan = Arbiter(parts, proposers).plan(last(policy, rows))
    sizes = [proposal.action.target for proposal in plan.proposals if isinstance(proposal.action, ScaleExecutors)]
    return sizes, [reason.code for reason in plan.reasons if str(reason) != "looked"]


def test_growth_waits_where_the_objective_is_long_and_not_where_it_is_short() -> None:
    assert growth(PATIENT, 6, 200) == ([], ["queue"])
    assert growth(HURRIED, 6, 4000) == ([6], [])


def test_a_growth_that_waits_is_the_first_reason_and_is_not_called_a_growth() -> None:
    growth = Reason("grow", "2 of 1 slots are needed: growing from 1 to 6 executors")
    fixed = Fixed(ScaleExecutors(6), predictions=(Prediction("words", 60.0, 1.0, 0.0, 6),))
    fixed.said = replace(fixed.said, proposals=(Proposal(ScaleExecutors(6), growth),), reasons=(growth,))
    reasons = Arbiter({}, [fixed, Fixed(name="other")]).plan(last(PATIENT, 200)).reasons
    assert [reason.code for reason in reasons] == ["queue", "other"]


def test_a_shrink_is_not_put_off() -> None:
    assert growth(PATIENT, 1, 200) == ([1], [])
    seen = last()
    large = replace(seen, pool=replace(seen.pool, requested=4))
    shrink = Fixed(ScaleExecutors(2), predictions=(Prediction("words", 60.0, 1.0, 0.0, 2),))
    assert [one.action for one in Arbiter({}, [shrink]).plan(large).proposals] == [ScaleExecutors(2)]


@pytest.mark.parametrize(("late_with_six", "asked"), [(0.0, {"orders"}), (0.4, {"orders", "reports"})])
def test_only_those_that_a_growth_helps_are_asked_whether_it_can_wait(
    late_with_six: float, asked: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are old whatever the size do not make a growth urgent that is meant for somebody else."""
    late = {"orders": [0.4, late_with_six], "reports": [0.3, 0.3]}
    outcomes = Outcomes([1, 6], [9.0, 1.0], late, {}, 60.0)
    seen: list[set[str]] = []

    def spy(growth: Proposal, evaluation: Evaluation, names: tuple[str, ...], *rest: Any, **more: Any) -> Any:
        seen.append(set(names))
        return growth, growth.reason

    monkeypatch.setattr(arbiter, "what_cannot_wait", spy)
    predictions = tuple(Prediction(name, 60.0, 1.0, 0.0, 6) for name in late)
    quiet = PoolSize()
    monkeypatch.setattr(quiet, "propose", lambda _: Plan())
    asking = Arbiter({}, [Fixed(ScaleExecutors(6), predictions=predictions), quiet])
    quiet.memory.outcomes = outcomes
    asking.plan(last())
    assert seen == [asked]


def test_growth_into_the_bounds_does_not_wait() -> None:
    bound = Policy.model_validate({"objective": {"latency_s": 600}, "executors": {"min": 4, "max": 8}})
    assert growth(bound, 4, 200) == ([4], []), "the least that the policy allows is bought at once"
    assert growth(bound, 6, 200) == ([4], ["queue"]), "the rest can wait"


def test_a_pool_that_changes_often_grows_as_a_whole_or_not_at_all() -> None:
    bound = Policy.model_validate({"objective": {"latency_s": 600}, "executors": {"min": 4, "max": 8}})
    restless = PoolMemory(changed=[1.0, 2.0, 3.0, 4.0])
    assert growth(bound, 6, 200, restless) == ([6], [])
    assert growth(bound, 6, 200, replace(restless, changed=[1.0, 2.0, 3.0])) == ([4], ["queue"])


def test_everybody_is_asked_unless_somebody_is_named() -> None:
    asked = [type(one) for one in Arbiter({}).proposers]
    assert asked[: len(BUILT_IN)] == list(BUILT_IN)


def test_proposers_are_chosen_by_name_in_the_order_in_which_they_are_asked() -> None:
    assert [one.name for one in proposers_named(["state", "admission"])] == ["admission", "state"]
    with pytest.raises(InvalidInput, match="no proposer is named pol; there are admission, classes, pool"):
        proposers_named(["pol", "pool"])


def test_a_restart_that_costs_more_than_it_gains_is_held() -> None:
    short = Policy.model_validate({"objective": {"latency_s": 3}})
    restart = SetParallelism("words", "count", 8)
    plan = Arbiter({}, [Fixed(restart, pause_s=30.0)]).plan(last(short))
    assert plan.proposals == ()
    assert [reason.code for reason in plan.reasons] == ["hold-pause", "fixed"]
    assert [one.action for one in Arbiter({}, [Fixed(restart)]).plan(last(short)).proposals] == [restart]
    both = Arbiter({}, [Fixed(restart, pause_s=30.0), Fixed(SetShare("a", 0.2), name="share")]).plan(last(short))
    assert [one.action for one in both.proposals] == [SetShare("a", 0.2)], "what pauses nothing goes on"


def test_growth_to_what_recent_bursts_needed_does_not_wait() -> None:
    needed = PoolMemory(hindsight=Hindsight(least=Need(5, "words", 0.1, 60.0)))
    assert growth(PATIENT, 5, 200, needed) == ([5], [])
    assert growth(PATIENT, 6, 200, needed) == ([5], ["queue"])
