"""What holds of the proposer in any world: safe on bad metrics, bounded, repeatable, never without a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.worlds import pool
from tests.plan.operators.worlds import OPERATORS_ONLY, WORDS, Desk, actions_of, batch, operator, run
from tidegate.control.controller import Controller
from tidegate.control.knowledge import Knowledge
from tidegate.domain import ApplicationSample, Decision, Observation, SetParallelism
from tidegate.domain.codec import from_json, to_json, to_tree
from tidegate.domain.policy import Policy
from tidegate.plan.operators import Operators
from tidegate.plan.operators.memory import OperatorsMemory
from tidegate.plan.planner import Plan

POLICY = Policy.model_validate({"objective": {"latency_s": 2}, "knobs": OPERATORS_ONLY})


def slow(number: int, tasks: int = 1, busy_s: float = 1.5, **changes: object) -> Observation:
    """An observation every two seconds of a query that misses its objective."""
    stage = operator("work", parallelism=tasks, busy_s=busy_s, execute_latency_s=busy_s / min(tasks, 8))
    made = batch(number, stage)
    sample = ApplicationSample("app", (made,), made.committed_s, 1.0, restartable=True)
    return Observation(made.committed_s + 0.1, (replace(sample, **changes),), pool(2))  # type: ignore[arg-type]


def decided(observations: list[Observation], knowledge: Knowledge | None = None) -> list[Decision]:
    """What the default controller recommends."""
    made = Controller(POLICY, knowledge)
    return [made.step(observation) for observation in observations]


def asked(decisions: list[Decision]) -> list[SetParallelism]:
    return [action for one in decisions for action in one.actions if isinstance(action, SetParallelism)]


def test_it_acts_on_a_recurring_miss_and_once() -> None:
    desk = Desk()
    plans = [desk.act(slow(number)) for number in range(15)]
    assert [action for plan in plans for action in actions_of(plan)] == [SetParallelism("app", "work", 8)]
    assert plans[-1].reasons[0].code == "hold-trial"


def test_every_look_and_every_decision_has_a_reason() -> None:
    desk = Desk()
    plans = [desk.act(slow(number)) for number in range(25)][5:]  # what cannot be trusted yet is said by others
    assert all(plan.reasons and all(reason.text for reason in plan.reasons) for plan in plans)
    decisions = decided([slow(number) for number in range(25)])
    decisions += decided([Observation(1.0, (), pool(1))])
    assert all(one.reasons and all(reason.text for reason in one.reasons) for one in decisions)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"last_progress_s": 1.0}, "metrics-stale"),
        ({"error": "boom"}, "metrics-failed"),
        ({"running": False}, "metrics-ended"),
        ({"last_progress_s": None}, "metrics-missing"),
        ({"rebalancing": True}, "hold-restarting"),
    ],
)
def test_nothing_is_asked_on_metrics_that_cannot_be_trusted(changes: dict[str, object], code: str) -> None:
    decisions = decided([slow(number, **changes) for number in range(20)])
    assert not asked(decisions)
    assert code in {reason.code for reason in decisions[-1].reasons}


def test_batches_without_stages_teach_nothing() -> None:
    def blind(number: int) -> Observation:
        seen = slow(number)
        unread = replace(seen.applications[0].batches[0], operators=(), busy_s=None)
        return slow(number, batches=(unread,))

    desk = Desk()
    assert not any(desk.look(blind(number)).proposals for number in range(20))
    assert not desk.memory.applications["app"].batches


@settings(max_examples=15, deadline=None)
@given(tasks=st.integers(1, 300), busy_s=st.floats(0.05, 30), executors=st.integers(0, 5))
def test_a_plan_stays_within_one_task_and_the_slots(tasks: int, busy_s: float, executors: int) -> None:
    desk = Desk()
    for number in range(12):
        for action in actions_of(desk.look(replace(slow(number, tasks, busy_s), pool=pool(executors)))):
            assert isinstance(action, SetParallelism)
            assert 1 <= action.parallelism <= 4 * executors
            assert action.parallelism != tasks


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.floats(0.05, 5.0), st.integers(0, 2)), min_size=1, max_size=25))
def test_proposing_changes_no_memory(seen: list[tuple[int, float, int]]) -> None:
    """Neither does recommending: the memory is that of a proposer that was never asked."""
    desk, silent = Desk(), Desk()
    for number, (tasks, busy_s, failed) in enumerate(seen):
        observation = slow(number, tasks, busy_s)
        stage = replace(observation.applications[0].batches[0].operators[0], failed_tasks=failed)
        made = replace(observation.applications[0].batches[0], operators=(stage,))
        observation = replace(observation, applications=(replace(observation.applications[0], batches=(made,)),))
        evaluation = desk.evaluator.evaluate(observation)
        desk.proposer.watch(evaluation)
        before = to_tree(desk.memory)
        first = desk.proposer.propose(evaluation)
        assert desk.proposer.propose(evaluation) == first
        assert to_tree(desk.memory) == before
        silent.proposer.watch(silent.evaluator.evaluate(observation))
        assert to_tree(silent.memory) == before


def test_recommending_leaves_no_trace() -> None:
    """Two controllers see the same; in one, everything that the proposer would ask for is thrown away."""

    class Mute(Operators):
        def propose(self, evaluation) -> Plan:  # type: ignore[no-untyped-def]
            return Plan()

    speaking, mute = Desk(), Desk()
    mute.proposer = Mute()
    plans = [(speaking.look(slow(number)), mute.look(slow(number))) for number in range(30)]
    assert sum(bool(plan.proposals) for plan, _ in plans) > 5, "it asks again at every look"
    assert to_tree(speaking.memory) == to_tree(mute.memory)
    assert speaking.memory.applications["app"].trial is None
    assert not speaking.memory.tables


def test_the_same_observations_and_receipts_give_the_same_decisions_across_a_restart() -> None:
    _, entries = run(WORDS, objective_s=2.0, until_s=60)
    steps = [(entry.observation, entry.receipt) for entry in entries if entry.observation and entry.receipt]
    half = len(steps) // 2

    def repeat(knowledge: Knowledge, part) -> list[Decision]:  # type: ignore[no-untyped-def]
        made, decisions = Controller(POLICY, knowledge), []
        for observation, receipt in part:
            decisions.append(made.step(observation))
            made.learn(decisions[-1], receipt)
        return decisions

    whole = Knowledge()
    decisions = repeat(whole, steps)
    assert asked(decisions)
    cut = Knowledge()
    first = repeat(cut, steps[:half])
    taken_up = Knowledge.from_bytes(cut.to_bytes())
    assert taken_up is not None
    assert first + repeat(taken_up, steps[half:]) == decisions
    assert whole.parts[Operators.name].tables, "the migration tables are part of it"
    memory = whole.parts[Operators.name]
    assert from_json(OperatorsMemory, to_json(memory)) == memory


def test_models_end_with_their_application() -> None:
    desk = Desk()
    for number in range(5):
        desk.look(slow(number))
    assert "app" in desk.memory.applications
    desk.look(Observation(120.0, (), pool(1)))
    assert "app" in desk.memory.applications, "it may be on its way back"
    desk.look(Observation(300.0, (), pool(1)))
    assert not desk.memory.applications
