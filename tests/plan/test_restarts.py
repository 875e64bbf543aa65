"""Restarts that cost more than they bring are not made, and tasks that a larger pool could use are not given away."""

from __future__ import annotations

from tests.plan.operators.test_contract import slow
from tests.plan.operators.worlds import Desk, actions_of
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.policyfile import policy_from
from tidegate.control.runner import Runner
from tidegate.domain import ArrivalSample, SetParallelism
from tidegate.load import Burst, Constant, LoadProfile


def run(load: LoadProfile, *, restart_s: float, until_s: float, tasks: int = 2) -> tuple[SimCluster, MemoryJournal]:
    job = SimApplication(
        "words", load, operators=(SimOperator("split", 0.004, tasks), SimOperator("count", 0.0005, 8)),
        restart_s=restart_s,
    )  # fmt: skip
    cluster = SimCluster([job], executors=2, slots_per_executor=4, max_executors=4, seed=1)
    policy = policy_from({"objective": {"latency_s": 6}, "executors": {"min": 1, "max": 4}})
    journal = MemoryJournal()
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=until_s)
    return cluster, journal


def reasons(journal: MemoryJournal) -> set[str]:
    return {reason.code for entry in journal.entries if entry.decision for reason in entry.decision.reasons}


def rescales(journal: MemoryJournal) -> list[SetParallelism]:
    decisions = [entry.decision for entry in journal.entries if entry.decision]
    return [action for one in decisions for action in one.actions if isinstance(action, SetParallelism)]


def test_a_job_that_drowns_is_restarted_however_long_it_takes() -> None:
    _, journal = run(Constant(rate=700), restart_s=8.0, until_s=120)
    assert any(action.operator == "split" and action.parallelism > 2 for action in rescales(journal))


def test_tasks_that_a_larger_pool_could_use_are_kept_while_the_pool_is_small() -> None:
    cluster, journal = run(
        Burst(base=100, peak=2000, start_s=300, duration_s=120), restart_s=4.0, until_s=600, tasks=16
    )
    assert not [action for action in rescales(journal) if action.parallelism < 16 and action.operator == "split"]
    assert cluster.violation_rate("words", 6.0) < 0.4


def test_a_restart_for_a_rising_load_leaves_tasks_for_the_executors_that_will_come() -> None:
    """Eight slots are there, and 24 may come. A load that stays as it is needs no tasks for them."""

    def tasks(rows_per_s_more: float) -> int:
        desk = Desk(executors={"min": 1, "max": 6})
        for number in range(15):
            time_s = slow(number).time_s
            since_s = time_s - slow(0).time_s
            arrived = round(15.0 * since_s + 0.5 * rows_per_s_more * since_s**2)
            found = actions_of(desk.act(slow(number, arrival=ArrivalSample(time_s, arrived))))
            if found:
                assert isinstance(found[0], SetParallelism)
                return found[0].parallelism
        raise AssertionError("nothing was asked for")

    assert tasks(rows_per_s_more=0.0) == 8
    assert tasks(rows_per_s_more=1.0) == 24
