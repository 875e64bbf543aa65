"""What holds of every planner, run for me-stream: safe on bad metrics, bounded, repeatable, never without a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.worlds import pool
from tests.elasticity.worlds import WORDS, batch, operator, run
from tidegate.control.controller import Controller
from tidegate.control.knowledge import Knowledge
from tidegate.domain import (
    ActionReceipt,
    ApplicationSample,
    Decision,
    Observation,
    Outcome,
    RebalanceReport,
    Receipt,
    SetParallelism,
)
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.policy import Policy
from tidegate.planning.elasticmemory import MeStreamMemory

POLICY = Policy.model_validate({"planner": "me-stream", "objective": {"latency_s": 2}})


def controller(memory: MeStreamMemory | None = None) -> Controller:
    return Controller(POLICY, Knowledge(operators=memory or MeStreamMemory()))


def slow(number: int, tasks: int = 1, busy_s: float = 1.5, **changes: object) -> Observation:
    """An observation every two seconds of a query that misses its objective."""
    stage = operator("work", parallelism=tasks, busy_s=busy_s, execute_latency_s=busy_s / min(tasks, 8))
    made = batch(number, stage)
    sample = ApplicationSample("app", (made,), made.committed_s, 1.0, restartable=True)
    return Observation(made.committed_s + 0.1, (replace(sample, **changes),), pool(2))  # type: ignore[arg-type]


def decided(observations: list[Observation], memory: MeStreamMemory | None = None) -> list[Decision]:
    made = controller(memory)
    return [made.step(observation) for observation in observations]


def asked(decisions: list[Decision]) -> list[SetParallelism]:
    return [action for one in decisions for action in one.actions if isinstance(action, SetParallelism)]


def test_it_acts_on_a_recurring_miss_and_once() -> None:
    assert asked(decided([slow(number) for number in range(15)])) == [SetParallelism("app", "work", 8)]


def test_every_decision_has_a_reason() -> None:
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

    assert not asked(decided([blind(number) for number in range(20)]))


@settings(max_examples=15)
@given(tasks=st.integers(1, 300), busy_s=st.floats(0.05, 30), executors=st.integers(0, 5))
def test_a_plan_stays_within_one_task_and_the_slots(tasks: int, busy_s: float, executors: int) -> None:
    seen = [replace(slow(number, tasks, busy_s), pool=pool(executors)) for number in range(12)]
    for action in asked(decided(seen)):
        assert 1 <= action.parallelism <= 4 * executors
        assert action.parallelism != tasks


def test_the_same_observations_give_the_same_decisions_and_memory_survives_being_written_down() -> None:
    _, entries = run(WORDS, objective_s=2.0, until_s=60)
    observations = [entry.observation for entry in entries if entry.observation]
    first, half = MeStreamMemory(), len(observations) // 2
    whole = decided(observations, first)
    memory = MeStreamMemory()
    made = controller(memory)
    before = [made.step(seen) for seen in observations[:half]]
    made = Controller(POLICY, from_json(Knowledge, to_json(made.knowledge)))
    assert before + [made.step(seen) for seen in observations[half:]] == whole
    assert first.tables, "the migration tables are part of it"


def test_models_end_with_their_application() -> None:
    memory = MeStreamMemory()
    made = controller(memory)
    for number in range(5):
        made.step(slow(number))
    assert "app" in memory.applications
    made.step(Observation(120.0, (), pool(1)))
    assert "app" in memory.applications, "it may be on its way back"
    made.step(Observation(300.0, (), pool(1)))
    assert not memory.applications


def test_refusals_and_rollbacks_are_remembered() -> None:
    memory = MeStreamMemory()
    made = controller(memory)
    refused = 0
    for number in range(60):
        decision = made.step(slow(number))
        if decision.actions:
            refused += 1
            memory.learn(Receipt(tuple(ActionReceipt(action, Outcome.REFUSED) for action in decision.actions)))
    assert refused == 2, "asked twice in vain, it is taken for fixed"
    again = controller(memory := MeStreamMemory())
    for number in range(15):
        again.step(slow(number))
    rolled_back = slow(15, rebalance=RebalanceReport(done=False, pause_s=9.0, note="no room"))
    assert "no room" in again.step(rolled_back).reasons[0].text
    assert memory.applications["app"].trial is None
    assert memory.pause_s("app", stateful=False, state_rows=0) == 9.0
