"""Every knob of the simulated world: what turning it costs, what is refused, and that it goes back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.adapters.sim import ExecutorLost, SimApplication, SimCluster, SimOperator
from tidegate.domain import (
    Action,
    BatchSample,
    InvalidInput,
    MoveState,
    Outcome,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
    Targets,
)
from tidegate.load import Burst

READ = SimOperator("read", 0.0, 2)


def counting(
    name: str = "app", load: Any = 100, tasks: int = 4, cost_s: float = 0.008, **changes: Any
) -> SimApplication:
    """An aggregation with state."""
    operators = (READ, SimOperator("count", cost_s, tasks, stateful=True, state_keys=1000))
    values: dict[str, Any] = {"overhead_s": 0.2, "cold_s": 0.0, "operators": operators}
    return SimApplication(name, load, **(values | changes))


def mapping(name: str, load: Any = 100, tasks: int = 4, cost_s: float = 0.004, **changes: Any) -> SimApplication:
    """A query without state."""
    values: dict[str, Any] = {"overhead_s": 0.2, "cold_s": 0.0, "operators": (SimOperator("map", cost_s, tasks),)}
    return SimApplication(name, load, **(values | changes))


def world(*applications: SimApplication, executors: int = 1, slots: int = 2, **changes: Any) -> SimCluster:
    values: dict[str, Any] = {"noise": 0.0, "startup_s": 1.0, "warmup_s": 0.0}
    return SimCluster(applications, executors, slots, **(values | changes))


def batches(cluster: SimCluster, until_s: float, application: int = 0) -> list[BatchSample]:
    cluster.advance_to(until_s)
    return list(cluster.observe().applications[application].batches)


def outcomes(receipt: Receipt) -> list[tuple[str, Outcome]]:
    return [(answer.action.kind, answer.outcome) for answer in receipt.actions]


# state


def test_a_new_executor_gets_no_state_by_itself() -> None:
    cluster = world(counting())
    alone = batches(cluster, 10.0)[-1]
    cluster.converge(Targets(executors=2))
    beside = batches(cluster, 30.0)[-1]
    assert cluster.observe().pool.registered == 2
    assert beside.operators[1].executors == ("0", "0", "0", "0")
    assert beside.duration_s == alone.duration_s == pytest.approx(0.2 + 100 * 0.008 / 2, abs=1e-4)


def test_a_move_loads_the_partition_once_and_then_helps() -> None:
    cluster = world(counting(state_reload_s=0.2, state_first_s=1.8), executors=1)
    cluster.converge(Targets(executors=2))
    batches(cluster, 10.9)
    moved = Targets(executors=2, state={"app": {2: "1", 3: "1"}})
    assert outcomes(cluster.converge(moved)) == [("move-state", Outcome.DONE)] * 2
    assert cluster.converge(moved).actions == ()
    loading, *_, settled = batches(cluster, 30.0)
    assert loading.operators[1].executors == settled.operators[1].executors == ("0", "0", "1", "1")
    # 100 rows in four tasks of 0.2 s; those that move take 2 s longer on an executor without any of this state
    assert loading.operators[1].execute_latency_s == pytest.approx(0.2 + 2.0, abs=1e-4)
    assert settled.duration_s == pytest.approx(0.2 + 0.2, abs=1e-4)


def test_a_later_move_to_the_same_executor_is_cheap() -> None:
    cluster = world(counting(state_reload_s=0.2, state_first_s=1.8), executors=2)
    batches(cluster, 10.9)
    cluster.converge(Targets(state={"app": {0: "1"}}))
    # executor 1 then has three tasks for two slots, one of which loads for 0.2 s
    loading = batches(cluster, 12.5)[0]
    assert loading.operators[1].executors == ("1", "1", "0", "1")
    assert loading.operators[1].execute_latency_s == pytest.approx(0.4, abs=1e-4)


def test_a_move_in_the_middle_of_a_batch_waits_for_its_end() -> None:
    cluster = world(counting(), executors=2)
    cluster.advance_to(5.3)
    assert cluster.gates[0].in_batch
    wanted = Targets(state={"app": {0: "1"}})
    assert outcomes(cluster.converge(wanted)) == [("move-state", Outcome.UNDER_WAY)]
    running, following = batches(cluster, 6.9)[-2:]
    assert running.operators[1].executors[0] == "0"
    assert following.operators[1].executors[0] == "1"
    assert cluster.converge(wanted).actions == ()


def test_an_executor_is_emptied_before_it_retires() -> None:
    cluster = world(counting(state_reload_s=0.5), executors=2)
    even = batches(cluster, 5.9)[-1]
    target = Targets(executors=1)
    cluster.converge(target)
    assert [one.retiring for one in cluster.observe().pool.executors] == [False, True]
    refused = cluster.converge(Targets(executors=1, state={"app": {0: "1"}})).actions[-1]
    assert (refused.outcome, refused.note) == (Outcome.REFUSED, "executor 1 is about to retire")
    cluster = world(counting(state_reload_s=0.5), executors=2)
    batches(cluster, 5.9)
    seen = []
    for second, moves in enumerate(({}, {1: "0"}, {1: "0"}, {1: "0", 3: "0"}, {1: "0", 3: "0"}), start=6):
        cluster.converge(Targets(executors=1, state={"app": moves}))
        seen += batches(cluster, second + 0.9)
        assert cluster.observe().pool.registered == (2 if 3 not in moves else 1)
    assert [batch.operators[1].executors for batch in seen] == [
        *[("0", "1", "0", "1")], *[("0", "0", "0", "1")] * 2, *[("0", "0", "0", "0")] * 2,
    ]  # fmt: skip
    # both at once would take 0.2 + (0.8 + 1.0) / 2 s
    assert max(batch.duration_s for batch in seen) <= even.duration_s + 0.5 < 1.1


def test_an_executor_that_retires_with_state_makes_it_load_elsewhere() -> None:
    cluster = world(counting(state_reload_s=0.5), executors=2)
    even = batches(cluster, 5.9)[-1]
    for _ in range(2):  # in the second round nobody has moved its state
        cluster.converge(Targets(executors=1))
    loading, *_, settled = batches(cluster, 12.9)
    assert even.operators[1].executors == ("0", "1", "0", "1")
    assert loading.operators[1].executors == settled.operators[1].executors == ("0", "0", "0", "0")
    # two of four tasks of 0.2 s load for 0.5 s; two slots
    assert loading.operators[1].execute_latency_s == pytest.approx((0.8 + 1.0) / 2, abs=1e-4)
    assert settled.operators[1].execute_latency_s == pytest.approx(0.4, abs=1e-4)


def test_an_executor_that_was_emptied_retires_for_nothing() -> None:
    cluster = world(counting(cost_s=0.004), executors=2)
    batches(cluster, 5.9)
    cluster.converge(Targets(state={"app": {1: "0", 3: "0"}}))
    batches(cluster, 8.9)
    cluster.converge(Targets(executors=1))
    after = batches(cluster, 12.9)
    assert [batch.duration_s for batch in after] == pytest.approx([0.4] * len(after), abs=1e-4)
    assert cluster.observe().pool.registered == 1


def test_a_lost_executor_takes_its_part_of_the_batch_and_its_state_with_it() -> None:
    job = counting(load=Burst(base=0, peak=1000, start_s=0.0, duration_s=1.0), cost_s=0.008, state_reload_s=0.5)
    cluster = world(job, executors=2, faults=[ExecutorLost(2.2)], startup_s=1000.0)
    batch = batches(cluster, 20.0)[0]
    # Each executor had 4 slot-seconds of work, 2 of them done when one died. The survivor's two slots do all 4 again,
    # load the state in 0.5, and finish the 2 that are left of their own.
    assert batch.duration_s == pytest.approx(0.2 + 1.0 + (4.0 + 0.5 + 2.0) / 2, abs=1e-4)
    assert batch.operators[1].executors == ("1", "1", "1", "1")


def test_two_applications_with_state_on_one_executor_share_its_slots() -> None:
    cluster = world(counting("one"), counting("two"), executors=1)
    together = batches(cluster, 10.9)[-1]
    cluster.converge(Targets(executors=2))
    batches(cluster, 20.9)
    assert batches(cluster, 30.9)[-1].duration_s == together.duration_s
    cluster.converge(Targets(executors=2, state={"two": dict.fromkeys(range(4), "1")}))
    batches(cluster, 40.9)
    assert batches(cluster, 50.9)[-1].duration_s < 0.7 * together.duration_s


# cold executors and the host's CPUs


def busy(host_cpus: float | None, cpu_share: float = 1.0) -> SimCluster:
    job = mapping(
        "app", 2000, interval_s=0.0, overhead_s=0.0, admission_rows=10,
        operators=(SimOperator("w", 0.01, 8, cpu_share=cpu_share),),
    )  # fmt: skip
    # as measured on Spark 4.3: registered after 2.95 s, first Python task after 7.1 s, 8.2 CPU-seconds
    return world(job, slots=1, startup_s=2.95, warmup_s=4.15, warmup_speed=0.5, host_cpus=host_cpus)


def done(cluster: SimCluster, from_s: float, to_s: float) -> int:
    cluster.advance_to(from_s)
    before = cluster.gates[0].ledger.rows_done
    cluster.advance_to(to_s)
    return cluster.gates[0].ledger.rows_done - before


def test_three_cold_executors_at_once_halve_the_work_of_two_cores() -> None:
    """Measured on two cores: throughput cut by half for 15 s; the executors helped after 24 s, 2.4 times."""
    cluster = busy(host_cpus=2.0)
    usual = done(cluster, 5.0, 10.0) / 5
    cluster.converge(Targets(executors=4))
    assert 0.4 <= done(cluster, 10.0, 16.0) / 6 / usual <= 0.6
    assert done(cluster, 16.0, 25.0) / 9 / usual < 1
    assert done(cluster, 36.0, 40.0) / 4 / usual == pytest.approx(2.0, rel=0.1)


def test_without_a_limit_on_cpus_nothing_is_stolen() -> None:
    cluster = busy(host_cpus=None)
    usual = done(cluster, 5.0, 10.0) / 5
    cluster.converge(Targets(executors=4))
    assert done(cluster, 10.0, 12.0) / 2 == pytest.approx(usual, rel=0.1)
    assert done(cluster, 20.0, 30.0) / 10 == pytest.approx(4 * usual, rel=0.1)


def test_tasks_that_wait_leave_their_cpu_to_others() -> None:
    cluster = busy(host_cpus=2.0, cpu_share=0.1)
    usual = done(cluster, 5.0, 10.0) / 5
    cluster.converge(Targets(executors=4))
    assert done(cluster, 10.0, 16.0) / 6 > 0.8 * usual
    assert done(cluster, 36.0, 40.0) / 4 == pytest.approx(4 * usual, rel=0.1)


def test_a_crowded_host_says_so() -> None:
    cluster = busy(host_cpus=2.0)
    cluster.advance_to(10.0)
    calm = cluster.observe().hosts[0]
    cluster.converge(Targets(executors=4))
    cluster.advance_to(15.0)
    crowded = cluster.observe().hosts[0]
    assert (calm.cpus, calm.cpu_busy, calm.cpu_pressure) == (2, pytest.approx(0.5, abs=0.01), 0.0)
    assert (crowded.cpu_busy, crowded.cpu_pressure) == (pytest.approx(1.0), pytest.approx(1.0))


# the driver


@pytest.mark.parametrize(("queries", "interval_s", "overhead_s"), [(1, 1.0, 0.4), (9, 1.0, 1.8), (2, 1.0, 0.4)])
def test_a_full_driver_stretches_every_overhead(queries: int, interval_s: float, overhead_s: float) -> None:
    """Nine aggregations of about 0.4 CPU-seconds a batch saturate two cores at a trigger of 1 s."""
    jobs = [mapping(f"q{number}", 10, overhead_s=0.4, driver_cpu_s=0.4, cost_s=0.0) for number in range(queries)]
    batch = batches(world(*jobs, driver_cpus=2.0), 30.0)[-1]
    assert batch.overhead_s == pytest.approx(overhead_s, abs=1e-3)


def test_every_task_that_is_launched_costs_the_driver() -> None:
    few, many = (
        batches(world(mapping("app", cost_s=0.0, tasks=tasks, driver_cpu_s_per_task=0.001)), 5.0)[-1]
        for tasks in (10, 200)
    )
    assert (many.overhead_s or 0) - (few.overhead_s or 0) == pytest.approx(0.19, abs=1e-3)


# shares


def test_shares_hold_while_all_have_work_and_leave_nothing_idle() -> None:
    jobs = [
        mapping(name, load, interval_s=0.0, overhead_s=0.0, admission_rows=10, cost_s=0.01)
        for name, load in (("a1", 2000), ("a2", 2000), ("b", 2000), ("c", 20))
    ]
    groups = {"a1": "gold", "a2": "gold", "b": "tin", "c": "tin"}
    cluster = world(*jobs, slots=4, groups=groups)

    def rates(from_s: float, to_s: float) -> dict[str, float]:
        cluster.advance_to(from_s)
        before = {gate.name: gate.ledger.rows_done for gate in cluster.gates}
        cluster.advance_to(to_s)
        return {gate.name: (gate.ledger.rows_done - before[gate.name]) / (to_s - from_s) for gate in cluster.gates}

    alike = rates(5.0, 10.0)
    assert alike["a1"] == pytest.approx(alike["b"], rel=0.1)
    assert outcomes(cluster.converge(Targets(shares={"gold": 0.8, "tin": 0.2}))) == [("set-share", Outcome.DONE)] * 2
    shared = rates(20.0, 40.0)
    assert shared["a1"] + shared["a2"] == pytest.approx(0.8 * 400, rel=0.05)
    assert shared["b"] + shared["c"] == pytest.approx(0.2 * 400, rel=0.05)
    cluster.release()
    assert rates(50.0, 60.0)["b"] == pytest.approx(alike["b"], rel=0.1)


def test_shares_hold_among_applications_with_state() -> None:
    jobs = [
        counting(name, 2000, interval_s=0.0, overhead_s=0.0, admission_rows=10, cost_s=0.01) for name in ("gold", "tin")
    ]
    cluster = world(*jobs, executors=2)
    cluster.converge(Targets(shares={"gold": 0.75, "tin": 0.25}))
    cluster.advance_to(20.0)
    gold, tin = (gate.ledger.rows_done for gate in cluster.gates)
    assert gold / tin == pytest.approx(3.0, rel=0.05)


def test_sixty_queries_in_classes_keep_the_highest_quick_while_the_lowest_bursts() -> None:
    groups = {f"a{number}": f"q{1 + number % 3}" for number in range(60)}
    calm, burst = 20, Burst(base=20, peak=120, start_s=20, duration_s=20)

    def p99_s(shares: dict[str, float]) -> dict[str, float]:
        """Of the highest and the lowest class, from the burst on."""
        jobs = [
            mapping(name, burst if group == "q3" else calm, cost_s=0.003, tasks=2) for name, group in groups.items()
        ]
        cluster = world(*jobs, slots=4, groups=groups)
        cluster.converge(Targets(shares=shares))
        worst: dict[str, float] = {}
        for moment in range(1, 61):
            cluster.advance_to(float(moment))
            for sample in cluster.observe().applications:
                for batch in sample.batches:
                    if batch.latency and batch.started_s >= 20:
                        group = groups[sample.name]
                        worst[group] = max(worst.get(group, 0.0), batch.latency.p99_s)
        return worst

    alike, by_class = p99_s({}), p99_s({"q1": 0.6, "q2": 0.3, "q3": 0.1})
    assert alike["q1"] > 3.5
    assert by_class["q1"] < 2
    assert by_class["q3"] > alike["q1"]


# admission


def test_a_source_without_a_gate_refuses_a_limit() -> None:
    cluster = world(mapping("app", gated=False))
    answer = cluster.converge(Targets(admission={"app": 30})).actions[0]
    assert (answer.outcome, answer.note) == (Outcome.REFUSED, "the source of app has no gate and takes no limit")
    assert cluster.observe().applications[0].admission_rows is None


# what is seen


def test_arrivals_and_the_running_batch_are_seen_during_a_batch() -> None:
    cluster = world(mapping("app", 1000, cost_s=0.004))
    cluster.advance_to(2.2)
    seen = cluster.observe().applications[0]
    assert seen.batches == ()
    assert seen.in_batch
    assert seen.arrival is not None
    assert (seen.arrival.time_s, seen.arrival.arrived_rows) == (2.2, 2200)
    running = seen.running_batch
    assert running is not None
    assert (running.started_s, running.rows) == (1.0, 1000)
    assert (running.tasks_done, running.tasks_left) == (2, 2)  # 1 s of 2 s is done
    idle = world(mapping("app", 10, cost_s=0.0))
    idle.advance_to(3.5)
    seen = idle.observe().applications[0]
    assert (seen.in_batch, seen.running_batch) == (False, None)


def test_times_are_told_to_a_tenth_of_a_millisecond() -> None:
    cluster = SimCluster([counting(cost_s=0.00123456)], 2, 2, seed=3)
    for batch in batches(cluster, 20.0):
        assert batch.latency is not None
        told = [batch.started_s, batch.duration_s, batch.busy_s, batch.overhead_s, batch.latency.p99_s]
        told += [value for stage in batch.operators for value in (stage.busy_s, stage.cpu_s, stage.execute_latency_s)]
        assert all(value == round(value or 0.0, 4) for value in told)


# refusals, levels and the way back


REFUSED: list[tuple[Action, str]] = [
    (ScaleExecutors(9), "room for 4 executors"),
    (SetAdmission("ghost", 5), "no application named ghost"),
    (SetAdmission("closed", 5), "no gate and takes no limit"),
    (SetBatchInterval("closed", 5.0), "cannot be restarted"),
    (SetParallelism("app", "ghost", 5), "no operator ghost"),
    (SetShare("ghost", 0.5), "no class or application named ghost"),
    (MoveState("ghost", 0, "0"), "no application named ghost"),
    (MoveState("closed", 0, "0"), "has no state"),
    (MoveState("app", 9, "0"), "has 4 state partitions"),
    (MoveState("app", 0, "7"), "no executor 7 is registered"),
]


@pytest.mark.parametrize(("action", "note"), REFUSED, ids=lambda value: getattr(value, "kind", None))
def test_what_cannot_be_done_is_refused_every_time_and_changes_nothing(action: Action, note: str) -> None:
    def made() -> SimCluster:
        closed = mapping("closed", gated=False, restartable=False)
        cluster = world(counting(), closed, max_executors=4)
        cluster.advance_to(4.5)
        return cluster

    cluster, untouched = made(), made()
    for _ in range(3):
        (answer,) = cluster.converge(Targets().after([action])).actions
        assert (answer.action, answer.outcome) == (action, Outcome.REFUSED)
        assert note in answer.note
        cluster.advance_to(cluster.now_s + 2.0)
        untouched.advance_to(cluster.now_s)
        assert cluster.observe() == untouched.observe()
    assert cluster.reconfigurations == 0


LEVEL = Targets().after(
    [
        ScaleExecutors(3),
        SetAdmission("app", 60),
        SetParallelism("app", "count", 6),
        SetBatchInterval("app", 2.0),
        SetShare("app", 0.7),
        MoveState("app", 0, "1"),
    ]
)


def test_the_same_level_twice_is_the_same_level_once() -> None:
    once, often = (world(counting(), mapping("other"), executors=2) for _ in range(2))
    for cluster in (once, often):
        cluster.advance_to(4.3)
        first = cluster.converge(LEVEL)
        assert [answer.action for answer in first.actions] == list(LEVEL.actions())
    for _ in range(5):
        again = often.converge(LEVEL)
        assert {answer.outcome for answer in again.actions} == {Outcome.UNDER_WAY}
    for moment in range(5, 40):
        once.advance_to(float(moment))
        often.advance_to(float(moment))
        once.converge(LEVEL)
        often.converge(LEVEL)
        often.converge(LEVEL)
        assert once.observe() == often.observe()
    assert often.converge(LEVEL).actions == ()
    assert once.reconfigurations == often.reconfigurations == 2
    assert often.gates[0].restarts == 1


def test_whatever_was_turned_is_turned_back() -> None:
    cluster = world(counting(), mapping("other"), executors=2)
    before = cluster.observe()
    cluster.advance_to(4.3)
    level = LEVEL.after([SetAdmission("other", 20)])
    for moment in range(5, 40):
        cluster.converge(level)
        cluster.advance_to(float(moment))
    turned = cluster.observe()
    assert turned.pool.registered == 3
    assert [sample.admission_rows for sample in turned.applications] == [60, 20]
    cluster.release()
    cluster.release()
    cluster.advance_to(70.0)
    after = cluster.observe()
    assert (after.pool.requested, after.pool.registered) == (3, 3), "executors stay: the job may need them"
    for was, now in zip(before.applications, after.applications, strict=True):
        assert (now.admission_rows, now.interval_s) == (was.admission_rows, was.interval_s)
    assert cluster.gates[0].parallelism == [2, 4]
    assert [gate.restarts for gate in cluster.gates] == [2, 0]
    assert cluster.converge(Targets()).actions == ()


def test_observing_changes_nothing() -> None:
    seen, unseen = (world(counting(), mapping("other"), executors=2) for _ in range(2))
    for cluster in (seen, unseen):
        cluster.advance_to(3.3)
        cluster.converge(LEVEL)
    for step in range(1, 200):
        seen.advance_to(3.3 + step * 0.1)
        seen.observe()
        seen.observe()
    unseen.advance_to(seen.now_s)
    for one, two in zip(seen.gates, unseen.gates, strict=True):
        assert [(commit.first, commit.end) for commit in one.commits] == [
            (made.first, made.end) for made in two.commits
        ]
        assert [commit.time_s for commit in one.commits] == pytest.approx([made.time_s for made in two.commits])
    assert seen.observe().pool == unseen.observe().pool


def test_an_ignored_parallelism_is_told_and_not_tried_again() -> None:
    job = mapping("app", operators=(SimOperator("map", 0.001, 2, fixed=True),), restart_s=2.0)
    cluster = world(job)
    wanted = Targets(parallelism={"app": {"map": 5}})
    for moment in range(1, 20):
        cluster.advance_to(float(moment))
        receipt = cluster.converge(wanted)
    assert outcomes(receipt) == [("set-parallelism", Outcome.FAILED)]
    assert "runs with 2 tasks although 5 were asked for" in receipt.actions[0].note
    assert cluster.gates[0].restarts == 1


# properties

NAMES = ("app", "other")
ACTIONS = st.one_of(
    st.builds(ScaleExecutors, st.integers(0, 4)),
    st.builds(SetAdmission, st.sampled_from(NAMES), st.none() | st.integers(1, 300)),
    st.builds(SetParallelism, st.just("app"), st.just("count"), st.integers(1, 6)),
    st.builds(SetBatchInterval, st.sampled_from(NAMES), st.sampled_from([0.0, 0.5, 2.0])),
    st.builds(SetShare, st.sampled_from(NAMES), st.sampled_from([0.1, 0.5, 0.9])),
    st.builds(MoveState, st.just("app"), st.integers(0, 5), st.sampled_from(["0", "1", "2"])),
)


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(st.lists(ACTIONS, max_size=3), min_size=1, max_size=8),
    rates=st.tuples(st.integers(1, 400), st.integers(0, 400)),
    host_cpus=st.none() | st.sampled_from([1.0, 3.0]),
    driver_cpus=st.none() | st.just(0.5),
    lost_s=st.floats(0.5, 20.0),
)
def test_rows_are_conserved_and_first_in_first_out_whatever_is_turned(
    turns: list[list[Action]],
    rates: tuple[int, int],
    host_cpus: float | None,
    driver_cpus: float | None,
    lost_s: float,
) -> None:
    jobs = [
        counting("app", rates[0], driver_cpu_s=0.1, restart_s=1.0, repartition_s=1.0),
        mapping("other", rates[1], driver_cpu_s=0.1, restart_s=1.0),
    ]
    cluster = world(
        *jobs, host_cpus=host_cpus, driver_cpus=driver_cpus, warmup_s=1.0, faults=[ExecutorLost(lost_s)], noise=0.2
    )
    targets = Targets()
    told = dict.fromkeys(NAMES, 0)
    ends: dict[str, list[int]] = {name: [] for name in NAMES}
    for turn, actions in enumerate(turns):
        targets = targets.after(actions)
        answered = {answer.action for answer in cluster.converge(targets).actions}
        assert answered <= set(targets.actions())
        cluster.advance_to(3.0 * (turn + 1))
        seen = cluster.observe()
        for sample in seen.applications:
            for batch in sample.batches:
                told[sample.name] += batch.rows
                ends[sample.name].append(told[sample.name])
            assert sample.arrival is not None
            running = sample.running_batch.rows if sample.running_batch else 0
            gate = next(gate for gate in cluster.gates if gate.name == sample.name)
            waiting = sample.arrival.arrived_rows - gate.admitted
            assert waiting >= 0
            assert sample.arrival.arrived_rows == told[sample.name] + running + waiting
    for gate in cluster.gates:
        assert [commit.end for commit in gate.commits] == ends[gate.name]
        assert all(one.time_s <= two.time_s for one, two in pairwise(gate.commits))
        assert gate.latencies.rows == pytest.approx(told[gate.name])


@settings(max_examples=40, deadline=None)
@given(
    rate=st.integers(1, 100),
    tasks=st.integers(1, 9),
    stateful=st.booleans(),
    executors=st.integers(1, 4),
    slots=st.integers(1, 3),
    hot_share=st.sampled_from([0.0, 0.5]),
)
def test_more_executors_never_raise_the_latency_of_a_quiet_system(
    rate: int, tasks: int, stateful: bool, executors: int, slots: int, hot_share: float
) -> None:
    operator = SimOperator("work", 0.006, tasks, stateful=stateful, hot_share=hot_share)
    totals_s = []
    for count in (executors, executors + 1):
        cluster = world(mapping("app", rate, operators=(operator,)), executors=count, slots=slots)
        cluster.advance_to(20.0)
        found = cluster.gates[0].latencies
        totals_s.append((found.mean_s or 0.0) * found.rows)
    assert totals_s[1] <= totals_s[0] * (1 + 1e-9)


def test_a_story_with_every_knob_is_the_same_every_time() -> None:
    """Golden: restarts and mean latencies of a seeded story under a fixed plan."""
    jobs = [counting("app", 150), mapping("other", 80)]
    cluster = SimCluster(jobs, 1, 2, host_cpus=4.0, driver_cpus=2.0, groups={"app": "gold"}, seed=7)
    level = Targets()
    plan: dict[int, list[Action]] = {
        30: [ScaleExecutors(2), SetShare("gold", 0.7)],
        60: [MoveState("app", 1, "1"), MoveState("app", 3, "1")],
        90: [SetAdmission("other", 200), SetParallelism("app", "count", 6)],
        150: [ScaleExecutors(1), SetBatchInterval("other", 2.0)],
    }
    for moment in range(1, 240):
        level = level.after(plan.get(moment, []))
        cluster.converge(level)
        cluster.advance_to(float(moment))
    summary = cluster.summary()
    app, other = summary["applications"]["app"], summary["applications"]["other"]
    assert (app["rows_in"], other["rows_in"]) == (150 * 239, 80 * 239)
    assert (app["restarts"], other["restarts"], summary["reconfigurations"]) == (1, 1, 4)
    means_s = app["latency"]["mean_s"], other["latency"]["mean_s"]
    assert means_s == pytest.approx((1.872235, 1.432477), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"host_cpus": 0.0}, "the host must have more than 0 CPUs"),
        ({"driver_cpus": -1.0}, "the driver must have more than 0 CPUs"),
        ({"cold_cpus": -1.0}, "must need at least 0 CPUs"),
        ({"groups": {"ghost": "gold"}}, "no application is named ghost"),
    ],
)
def test_an_impossible_world_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        world(mapping("app"), **changes)
