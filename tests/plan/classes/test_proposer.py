"""The classes proposer: whom it holds back, what it leaves alone, what it remembers, and a closed loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.worlds import batch
from tests.plan.classes.worlds import INTERVAL_S, POLICY, Job, evaluated, job, limits, plan, shares
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import (
    ActionReceipt,
    Decision,
    ExecutorSample,
    LatencySample,
    Mode,
    Outcome,
    Reason,
    Receipt,
    SetAdmission,
)
from tidegate.domain.codec import from_json, to_json
from tidegate.evaluate.saturation import Saturation
from tidegate.load.profile import Burst, Constant
from tidegate.plan.admission import FIRST_ROWS
from tidegate.plan.classes import Classes
from tidegate.plan.classes.classesmemory import ClassesMemory
from tidegate.plan.planner import Plan


def carried_out(proposer: Classes, decided: Plan, time_s: float, outcome: Outcome = Outcome.DONE) -> None:
    """The world did all that was proposed."""
    actions = tuple(proposal.action for proposal in decided.proposals)
    decision = Decision(1, time_s, actions, (), (Reason("test", "test"),))
    proposer.learn(decision, Receipt(tuple(ActionReceipt(action, outcome) for action in actions)))


def test_enough_for_all_leaves_everybody_alone() -> None:
    decided = plan(job("q1-0", 50), job("q1-1", 50))
    assert not limits(decided)
    assert decided.reasons[0].code == "hold-fits"


def test_a_lighter_class_may_take_what_is_spare_and_not_more_in_one_trigger() -> None:
    decided = plan(job("q1-0", 50), job("q2-0", 10), job("q3-0", 1))
    # Two slots for five seconds do 1000 rows of 10 ms; 305 are wanted, and half of the rest is for each of the two.
    assert limits(decided) == {"q2-0": pytest.approx(50 + 347, abs=3), "q3-0": pytest.approx(5 + 347, abs=3)}
    codes = {each.reason.code for each in decided.proposals if isinstance(each.action, SetAdmission)}
    assert codes == {"bound-burst"}
    assert decided.reasons[0].code == "hold-fits"
    near = plan(job("q1-0", 50), job("q2-0", 10, admission_rows=300), job("q3-0", 1, admission_rows=450))
    assert not limits(near)


def test_what_is_not_understood_yet_keeps_the_slots_that_it_takes() -> None:
    stranger = job("q1-1", 2, busy_s=9.0, batches=1)
    decided = plan(job("q1-0", 20), job("q3-0", 300, pending=6000), stranger)
    # 0.45 of two slots are the stranger's: 775 rows in five seconds, of which q1 takes 100.
    assert limits(decided)["q3-0"] == pytest.approx(675, abs=5)
    assert "0.45 of them for applications whose cost is unknown" in decided.reasons[0].text


def test_a_lighter_class_gets_nothing_of_an_executor_that_is_still_cold() -> None:
    evaluation = evaluated(job("q1-0", 50), job("q3-0", 300, pending=6000))

    def granted(registered_s: float) -> int | None:
        new = ExecutorSample("1", "here", 2, 0, registered_s)
        pool = replace(evaluation.pool, executors=(*evaluation.pool.executors, new), requested=2)
        proposer, seen = Classes(), replace(evaluation, pool=pool)
        proposer.watch(seen)
        return limits(proposer.propose(seen))["q3-0"]

    alone = limits(plan(job("q1-0", 50), job("q3-0", 300, pending=6000)))["q3-0"]
    assert granted(registered_s=995.0) == alone
    assert granted(registered_s=900.0) == pytest.approx(alone + 1000, abs=20), "two slots do 1000 rows in five seconds"


def test_nobody_is_held_back_on_a_forecast_alone() -> None:
    proposer = Classes()
    seen = (job("q1-0", 90), job("q2-0", 90), job("q3-0", 90))
    guess = plan(*seen, proposer=proposer)
    assert guess.reasons[0].code == "hold-unproven"
    assert limits(guess) == {"q2-0": 900}, "a bound far above what it takes, and no limit for q3"
    proof = plan(*seen[:2], job("q3-0", 90, busy_s=33.0), proposer=proposer, time_s=1005.0)
    assert proof.reasons[0].code == "short"
    assert set(limits(proof)) >= {"q3-0"}
    still = plan(*seen, proposer=proposer, time_s=1035.0)
    assert still.reasons[0].code == "short", "what was seen once holds until all rows fit again"


def test_no_bound_comes_close_to_what_is_taken_now() -> None:
    decided = plan(job("q1-0", 90), job("q2-0", 30), job("q3-0", 300, pending=6000))
    assert limits(decided)["q2-0"] == pytest.approx(2 * 30 * 5, abs=2)


def test_the_lowest_class_is_held_to_what_is_left_and_slots_stay_full() -> None:
    decided = plan(job("q1-0", 50), job("q2-0", 60), job("q3-0", 300, pending=6000))
    # Two slots for five seconds do 1000 rows of 10 ms; q1 and q2 take 550 of them.
    assert limits(decided)["q3-0"] == pytest.approx(450, abs=5)
    assert decided.reasons[0].code == "short"
    assert "q3 needs" in decided.reasons[0].text
    reason = next(proposal.reason for proposal in decided.proposals if proposal.reason.code == "hold-back")
    assert "its backlog grows" in reason.text


def test_nobody_is_held_below_its_floor() -> None:
    held = limits(plan(job("q1-0", 200), job("q2-0", 200), job("q3-0", 100, pending=9000)))
    assert held["q3-0"] == pytest.approx(0.2 * 100 * 5, abs=1)


def test_a_limit_is_lifted_when_all_rows_fit_again() -> None:
    assert limits(plan(job("q1-0", 50, admission_rows=100))) == {"q1-0": None}
    freed = limits(plan(job("q1-0", 50), job("q3-0", 50, admission_rows=100)))
    assert freed == {"q3-0": pytest.approx(250 + 500, abs=2)}


def test_small_changes_are_not_worth_a_word() -> None:
    seen = (job("q1-0", 50), job("q1-1", 60), job("q3-0", 300, pending=6000, admission_rows=460))
    assert not limits(plan(*seen))


def test_sources_without_a_gate_are_reckoned_with_and_not_limited() -> None:
    open_door = job("q3-0", 100, pending=1500, gated=False)
    held = limits(plan(job("q1-0", 50), open_door, job("q3-1", 100, pending=3000)))
    assert set(held) == {"q3-1"}


def test_shares_follow_importance_and_are_asked_for_until_they_are_in_force() -> None:
    proposer = Classes()
    seen = (job("q1-0", 50), job("q2-0", 50), job("q3-0", 300, pending=6000))
    first = plan(*seen, proposer=proposer)
    asked = shares(first)
    assert sum(asked.values()) == pytest.approx(1.0, abs=0.01)
    assert asked["q1"] > asked["q2"] > 0.02
    assert shares(plan(*seen, proposer=proposer)) == asked, "nobody has said that they are in force"
    carried_out(proposer, first, 1000.0)
    assert not shares(plan(*seen, proposer=proposer))


def test_shares_that_were_refused_are_not_taken_for_granted() -> None:
    proposer = Classes()
    seen = (job("q1-0", 50), job("q3-0", 300, pending=6000))
    carried_out(proposer, plan(*seen, proposer=proposer), 1000.0, Outcome.REFUSED)
    assert not proposer.memory.shares


def test_a_class_that_is_held_back_still_gets_what_is_let_in_done() -> None:
    decided = plan(job("q1-0", 110), job("q2-0", 40, pending=3000), job("q3-0", 300, pending=6000))
    assert {"q2-0", "q3-0"} <= set(limits(decided))
    found = shares(decided)
    # By importance alone, held back as it is, q2 would have 4 % of what it was granted.
    assert found["q2"] >= 0.1
    assert found["q1"] > 2 * found["q2"]


def test_a_saturated_host_gives_less_away_and_says_so() -> None:
    seen = (job("q1-0", 50), job("q3-0", 300, pending=6000))
    calm = limits(plan(*seen))["q3-0"]
    reason = Reason("saturated", "rows take 1.60 times as long as learned")
    proposer, evaluation = Classes(), replace(evaluated(*seen), saturation=Saturation(0.6, 1.6, reason))
    proposer.watch(evaluation)
    decided = proposer.propose(evaluation)
    assert reason in decided.reasons
    crowded = limits(decided)["q3-0"]
    assert crowded is not None
    assert calm is not None
    assert crowded < 0.6 * calm


def test_what_cannot_be_trusted_is_left_alone() -> None:
    decided = plan(job("q1-0", 50), job("q3-0", 900, pending=9000, busy_s=0.1, error="it broke"))
    assert not limits(decided)
    assert plan(job("q1-0", 50, batches=1)) == Plan()


def test_late_rows_are_told() -> None:
    late = batch(12, 996.0, 100, latency=LatencySample(100, 20.0, 25.0, 30.0, 31.0))
    decided = plan(job("q1-0", 50, batches=12), Late("q2-0", 20, late))
    assert any(reason.code == "violations" and "q2" in reason.text for reason in decided.reasons)


class Late(Job):
    """A query whose last batch was late."""

    def __init__(self, name: str, rate: int, last: Any) -> None:
        super().__init__(name, rate)
        object.__setattr__(self, "_last", last)

    def samples(self, now_s: float) -> Any:
        before, now = super().samples(now_s)
        return before, type(now)(now.name, (*now.batches, self._last), now_s, INTERVAL_S, arrival=now.arrival)


JOBS = st.lists(
    st.tuples(st.sampled_from(sorted(POLICY.applications)), st.integers(1, 300), st.integers(0, 9000)),
    min_size=1,
    max_size=6,
    unique_by=lambda each: each[0],
)


@settings(max_examples=15, deadline=None)
@given(st.lists(JOBS, min_size=1, max_size=4))
def test_a_proposal_that_nobody_carries_out_leaves_no_trace(worlds: list[Any]) -> None:
    asked, silent = Classes(), Classes()
    for step, jobs in enumerate(worlds):
        evaluation = evaluated(*(job(*each) for each in jobs), time_s=1000.0 + 5 * step)
        for proposer in (asked, silent):
            proposer.watch(evaluation)
        before = to_json(asked.memory)
        assert asked.propose(evaluation) == asked.propose(evaluation)
        assert to_json(asked.memory) == before == to_json(silent.memory)
    assert not asked.memory.shares


def test_the_same_evaluations_give_the_same_plans_also_from_a_memory_that_was_written_down() -> None:
    proposer, held = Classes(), 0
    for step in range(8):
        evaluation = evaluated(job("q1-0", 50), job("q3-0", 200, pending=900 * step), time_s=1000.0 + 5 * step)
        other = Classes(from_json(ClassesMemory, to_json(proposer.memory)))
        for each in (proposer, other):
            each.watch(evaluation)
        assert other.propose(evaluation) == proposer.propose(evaluation)
        assert other.memory == proposer.memory
        held += len(limits(proposer.propose(evaluation)))
    assert held


def test_many_applications_are_planned_as_few_are() -> None:
    """More than are forecast one by one: classes are granted the same as where few make up the same load."""
    names = [f"q{c}-x{i}" for c in (1, 2, 3) for i in range(40)]
    applications = {name: {"class": name[:2]} for name in names}
    many_policy = POLICY.model_validate({**POLICY.model_dump(by_alias=True), "applications": applications})
    rates = {"q1": 1, "q2": 1, "q3": 8}
    many = plan(
        *(job(name, rates[name[:2]], pending=rates[name[:2]] * (20 if name[:2] == "q3" else 5)) for name in names),
        policy=many_policy,
    )
    few = plan(job("q1-0", 40), job("q2-0", 40), job("q3-0", 320, pending=6400))
    held = [limit for name, limit in limits(many).items() if name.startswith("q3")]
    assert len(held) == 40
    assert sum(limit or 0 for limit in held) == pytest.approx(limits(few)["q3-0"], abs=40)
    assert shares(many) == pytest.approx(shares(few), abs=0.02)


def test_one_that_cannot_use_more_slots_is_not_granted_more() -> None:
    """Its backlog would ask for a hundred slots, but it has as many tasks as it has: the others get the rest."""
    decided = plan(job("q1-0", 50, pending=90_000, tasks=1), job("q3-0", 300, pending=6000))
    # One slot for five seconds does 500 rows of 10 ms; q3 gets the other one.
    assert limits(decided) == {"q3-0": pytest.approx(500, abs=5)}


def narrow(**changes: Any) -> Job:
    """One task has far more rows than it can do, and it could be rescaled."""
    return job("q1-0", 50, **{"pending": 90_000, "tasks": 1, "restartable": True, **changes})


def test_one_that_can_be_rescaled_reads_no_long_batches() -> None:
    """They would not be done sooner, and it could not be rescaled before they end."""
    decided = plan(narrow(), job("q3-0", 20))
    assert limits(decided)["q1-0"] == pytest.approx(500, abs=5)
    text = next(one.reason.text for one in decided.proposals if "q1-0" in one.reason.text)
    assert text.startswith("q1-0 (q1): its tasks are too few for 89800 rows in 5 s: a batch may read ")
    assert "q1-0" not in limits(plan(narrow(restartable=False), job("q3-0", 20)))
    assert limits(plan(narrow(tasks=2), job("q3-0", 20)))["q1-0"] > 900, "as much as both slots do in a trigger"


@pytest.mark.parametrize("cost_s", [0.01, 0.009, 0.0075])
def test_slots_that_it_has_no_tasks_for_are_not_idle(cost_s: float) -> None:
    """Even if its rows have become cheaper since its limit was set."""
    proposer = Classes()
    for step in range(5):
        plan(narrow(admission_rows=500, row_s=cost_s), job("q3-0", 20), proposer=proposer, time_s=1000.0 + 5 * step)
    assert proposer.memory.trim == 1.0


def world(steered: bool) -> tuple[SimCluster, list[Decision], Controller]:
    """Nine queries in three classes on two slots; the lowest class bursts to three times its load."""
    jobs = [
        SimApplication(
            name, Burst(40, 120, start_s=60, duration_s=60) if name.startswith("q3") else Constant(40), interval_s=5.0,
            overhead_s=0.4, operators=(SimOperator("work", cost_s_per_row=0.0042, parallelism=2),),
        )
        for name in POLICY.applications
    ]  # fmt: skip
    groups = {name: name[:2] for name in POLICY.applications}
    cluster = SimCluster(jobs, 1, 2, startup_s=0.001, warmup_s=0.001, groups=groups, seed=1)
    journal = MemoryJournal()
    controller = Controller(POLICY if steered else POLICY.model_copy(update={"mode": Mode.OFF}))
    Runner(cluster, controller, cluster.clock, journal, journal).run(until_s=130.0)
    return cluster, [entry.decision for entry in journal.entries if entry.decision], controller


@pytest.mark.slow
def test_a_burst_of_the_lowest_class_is_held_back_without_idling() -> None:
    default, _, _ = world(steered=False)
    cluster, decisions, controller = world(steered=True)
    limits = [a for decision in decisions for a in decision.actions if isinstance(a, SetAdmission)]
    held = [a for a in limits if (a.rows_per_trigger or FIRST_ROWS) < FIRST_ROWS]  # that is for who is not known yet
    assert held
    assert {action.application[:2] for action in held} == {"q2", "q3"}  # q2 is bounded, not held back
    assert min(action.rows_per_trigger or 0 for action in held) >= 0.2 * 40 * 5

    def done(of: SimCluster, group: str) -> int:
        return sum(gate.commits[-1].end for gate in of.gates if gate.name.startswith(group))

    for group in ("q1", "q2"):
        assert done(cluster, group) >= 0.99 * done(default, group)
    assert sum(done(cluster, g) for g in ("q1", "q2", "q3")) >= 0.95 * sum(done(default, g) for g in ("q1", "q2", "q3"))

    for name in ("q1-0", "q1-1", "q1-2"):
        with_classes, without = (next(gate for gate in of.gates if gate.name == name) for of in (cluster, default))
        assert with_classes.latencies.late_share(12.0) == 0.0
        assert (with_classes.latencies.mean_s or 0.0) < 0.95 * (without.latencies.mean_s or 0.0)
    memory = controller.knowledge.parts["classes"]
    assert from_json(ClassesMemory, to_json(memory)) == memory
