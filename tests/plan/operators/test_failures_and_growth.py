"""Failed tasks raise the source's parallelism; a parameter plan that does not fit asks for executors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.worlds import pool
from tests.plan.operators.worlds import Desk, actions_of, answer, batch, operator
from tidegate.domain import ApplicationSample, Observation, Outcome, ScaleExecutors, SetParallelism
from tidegate.domain.codec import to_tree
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.plan.arbiter import Arbiter
from tidegate.plan.operators.memory import ApplicationMemory, Trial
from tidegate.plan.proposersettings import OperatorSettings


def failing(number: int, failed: int, tasks: int = 2, warming: bool = False) -> Observation:
    """A query that holds its objective with ease, and would not be faster; tasks of its second operator fail."""
    stages = (
        operator("read", parallelism=tasks, busy_s=0.01 * tasks, execute_latency_s=0.01),
        operator("join", parallelism=4, busy_s=0.04, execute_latency_s=0.01, failed_tasks=failed),
    )
    made = batch(number, *stages, warming=warming)
    sample = ApplicationSample("app", (made,), made.committed_s, 1.0, restartable=True)
    return Observation(made.committed_s + 0.1, (sample,), pool(2))


def test_failures_raise_the_sources_parallelism() -> None:
    desk = Desk(objective_s=60.0)
    plans = [desk.look(failing(number, failed=0)) for number in range(8)]
    plans += [desk.look(failing(number, failed=1)) for number in range(8, 10)]
    assert not any(plan.proposals for plan in plans), "two failures are no habit yet"
    plan = desk.look(failing(10, failed=1))
    assert actions_of(plan) == [SetParallelism("app", "read", 4)]
    assert plan.proposals[0].reason.code == "rescale-failures"
    assert "3 tasks failed in 3 batches within 60 s" in plan.proposals[0].reason.text


@pytest.mark.parametrize(("failed", "code"), [(0, "helped"), (1, "useless")])
def test_such_a_change_is_judged_by_failures(failed: int, code: str) -> None:
    desk = Desk(objective_s=60.0)
    for number in range(12):
        plan = desk.look(failing(number, failed=1))
        if plan.proposals:
            break
    answer(desk.proposer, failing(number, 1).time_s, plan, {SetParallelism("app", "read", 4): Outcome.UNDER_WAY})
    desk.look(failing(number + 1, failed, tasks=4, warming=True))
    codes: set[str] = set()
    for later in range(number + 2, number + 14):
        # as fast as before: more tasks were not asked for speed
        codes |= {reason.code for reason in desk.look(failing(later, failed, tasks=4)).reasons}
    assert code in codes


def test_a_source_with_a_task_on_every_slot_gets_no_more() -> None:
    desk = Desk(objective_s=60.0)
    plans = [desk.look(failing(number, failed=1, tasks=8)) for number in range(20)]
    assert not any(plan.proposals for plan in plans)
    assert "tasks failed" in plans[-1].reasons[0].text


def two_slow(number: int, executors: int = 2, **changes: object) -> Observation:
    """Two applications about equally slow, each with its worst operator on all slots that are free for it."""
    samples = []
    for name, busy_s in (("a", 4.4), ("b", 4.0)):
        made = batch(number, operator("work", parallelism=4, busy_s=busy_s, execute_latency_s=busy_s / 4))
        samples.append(ApplicationSample(name, (made,), made.committed_s, 1.0, restartable=True))
    time_s = max(sample.batches[0].committed_s for sample in samples) + 0.1
    return Observation(time_s, tuple(samples), replace(pool(executors), **changes))  # type: ignore[arg-type]


def asked_to_grow(desk: Desk, **changes: object) -> dict[int, str]:
    """Sizes of the pool that were asked for, with the reason."""
    plans = [desk.look(two_slow(number, **changes)) for number in range(15)]  # type: ignore[arg-type]
    return {
        proposal.action.target: proposal.reason.text
        for plan in plans
        for proposal in plan.proposals
        if isinstance(proposal.action, ScaleExecutors)
    }


def test_a_parameter_plan_grows_the_executors() -> None:
    """N + φ·level: 4 + 2 and 4 + 1 slots are 11, on executors of four slots three."""
    desk = Desk(objective_s=1.0, executors={"max": 8})
    grown = asked_to_grow(desk)
    assert list(grown) == [3]
    assert "a 4 → 6, b 4 → 5 slots, plus 0 of other applications, make 11: growing from 2 to 3 executors" in grown[3]
    eager = Desk(objective_s=1.0, executors={"max": 8}, settings=OperatorSettings(phi=3.0))
    assert list(asked_to_grow(eager)) == [5], "4 + 6 and 4 + 3 slots"


@pytest.mark.parametrize(
    ("policy", "rule", "changes"),
    [
        ({"knobs": {"executors": False}}, "parameter", {}),
        ({"executors": {"max": 2}}, "parameter", {}),
        ({}, "parameter", {"scalable": False}),
        ({}, "parameter", {"requested": 3}),
    ],
)
def test_only_where_executors_may_be_scaled(policy: dict, rule: str, changes: dict) -> None:  # type: ignore[type-arg]
    desk = Desk(objective_s=1.0, settings=OperatorSettings(rule=rule), **policy)  # type: ignore[arg-type]
    assert not asked_to_grow(desk, **changes)


def test_who_is_hemmed_in_asks_for_the_next_executor() -> None:
    asked = asked_to_grow(Desk(objective_s=1.0, settings=OperatorSettings(rule="level")))
    assert list(asked) == [3]
    assert "more executors would help: growing to 3 executors" in asked[3]


def test_the_arbiter_takes_the_larger_of_two_sizes() -> None:
    desk = Desk(objective_s=1.0, executors={"max": 8})
    evaluator, arbiter = Evaluator(desk.policy, EvaluationMemory()), Arbiter({})
    wanted, largest = set(), set()
    for number in range(15):
        evaluation = evaluator.evaluate(two_slow(number))
        arbiter.watch(evaluation)
        sizes = [
            action.target
            for proposer in arbiter.proposers
            for action in actions_of(proposer.propose(evaluation))
            if isinstance(action, ScaleExecutors)
        ]
        settled = [action for action in actions_of(arbiter.plan(evaluation)) if isinstance(action, ScaleExecutors)]
        assert [action.target for action in settled] == ([max(sizes)] if sizes else [])
        wanted |= set(sizes)
        largest |= {action.target for action in settled}
    assert 3 in wanted
    assert largest


def test_growth_is_no_memory() -> None:
    desk = Desk(objective_s=1.0, executors={"max": 8})
    for number in range(15):
        plan = desk.look(two_slow(number))
        if ScaleExecutors(3) in actions_of(plan):
            break
    assert actions_of(plan) == [ScaleExecutors(3)]
    before = to_tree(desk.memory)
    answer(desk.proposer, 200.0, plan, {ScaleExecutors(3): Outcome.UNDER_WAY})
    assert to_tree(desk.memory) == before


def cold_start(number: int, cold_until: int) -> Observation:
    """A second executor has just joined. Batches are slow until it is warm, and then as fast as they should be."""
    slow = 4.0 if number < cold_until else 0.4
    stages = (operator("read", busy_s=0.1, execute_latency_s=0.1), operator("join", execute_latency_s=slow))
    made = batch(number, *stages, rows=100 * (number + 1), backlog_rows=1000 * number)
    sample = ApplicationSample("app", (made,), made.committed_s, 1.0, restartable=True)
    first, second = pool(2).executors
    members = (replace(first, since_s=0.0), replace(second, since_s=100.0))
    return Observation(made.committed_s + 0.1, (sample,), replace(pool(2), executors=members))


def test_batches_beside_cold_executors_are_no_reason_for_a_restart() -> None:
    """They once were: a query was restarted in the middle of a peak, right after the executors that it needed came."""
    desk = Desk(objective_s=30.0)
    plans = [desk.look(cold_start(number, cold_until=5)) for number in range(5)]
    assert not any(plan.proposals for plan in plans)
    assert not desk.memory.applications["app"].batches
    desk.look(cold_start(5, cold_until=5))
    assert len(desk.memory.applications["app"].batches) == 1, "from now on they count"


def measured(tasks: int, trial: Trial | None = None) -> ApplicationMemory:
    made = batch(0, operator("read", parallelism=1), operator("join", parallelism=tasks))
    return ApplicationMemory(batches=[made], pressed_s=[made.committed_s], trial=trial)


@pytest.mark.parametrize(("tasks", "kept"), [(2, 1), (3, 0)])
def test_a_change_of_the_pool_voids_only_what_depends_on_slots(tasks: int, kept: int) -> None:
    memory = measured(tasks)
    memory.take_other_slots(before=2, after=8)
    assert len(memory.batches) == kept
    assert not memory.pressed_s, "others may have had the slots"


def test_a_change_of_the_pool_during_a_restart_voids_everything() -> None:
    """What was measured before the restart must not ask for another one."""
    trial = Trial(9.0, {"join": 1}, {"join": 4}, 100.0, {}, {}, {}, 4.0, False, 1.0)
    memory = measured(tasks=1, trial=trial)
    memory.take_other_slots(before=2, after=8)
    assert (memory.batches, memory.trial) == ([], None)
