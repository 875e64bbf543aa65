"""The simulated operators: communication, skew, waiting for a turn, small tasks, state, a slow sink."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.adapters.sim.poolspec import PoolApplicationSpec
from tidegate.domain import BatchSample, InvalidInput, SetParallelism, Targets


def world(*operators: SimOperator, slots: int = 4, **changes: Any) -> SimCluster:
    values: dict[str, Any] = {"overhead_s": 0.1, "cold_s": 0.0, "operators": operators, **changes}
    return SimCluster([SimApplication("app", 100, **values)], 1, slots, noise=0.0)


def batches(cluster: SimCluster, until_s: float) -> list[BatchSample]:
    seen: list[BatchSample] = []
    while cluster.now_s < until_s:
        cluster.advance_to(cluster.now_s + 1.0)
        seen += cluster.observe().applications[0].batches
    return seen


def test_communication_holds_slots_and_is_told_apart() -> None:
    made = batches(world(SimOperator("a", 0.001, 2, communication_s_per_row=0.003, bytes_per_row=50)), 4)[1]
    stage = made.operators[0]
    assert stage.execute_latency_s == pytest.approx(100 * 0.004 / 2)
    assert (stage.busy_s, stage.cpu_s, stage.communication_s) == pytest.approx((0.4, 0.1, 0.3))
    assert stage.bytes_in == 5000
    assert stage.executors == ("0", "0")


def test_a_hot_key_makes_one_task_last() -> None:
    made = batches(world(SimOperator("a", 0.004, 4, hot_share=0.6)), 4)[1]
    stage = made.operators[0]
    assert stage.execute_latency_s == pytest.approx(0.4 * 0.7)
    assert stage.longest_task_s == pytest.approx(0.4 * 0.7)
    assert stage.skew == pytest.approx(2.8)
    assert stage.slowest_task in range(4)
    even = batches(world(SimOperator("a", 0.004, 4)), 4)[1].operators[0]
    assert even.slowest_task is None
    assert even.skew == pytest.approx(1.0)


def test_tasks_that_wait_for_their_turn_hold_their_slots() -> None:
    one, four = (batches(world(SimOperator("a", 0.004, tasks, works_at_once=1)), 4)[1].operators[0] for tasks in (1, 4))
    assert one.execute_latency_s == pytest.approx(0.4)
    assert four.execute_latency_s == pytest.approx(0.4), "no faster"
    assert four.busy_s == pytest.approx(4 * one.busy_s)
    assert four.cpu_s == pytest.approx(one.cpu_s)


def test_every_task_costs_something() -> None:
    few, many = (
        batches(world(SimOperator("a", 0.001, tasks, task_overhead_s=0.02)), 4)[1].operators[0] for tasks in (4, 40)
    )
    assert few.execute_latency_s == pytest.approx((0.1 + 4 * 0.02) / 4)
    assert many.execute_latency_s == pytest.approx((0.1 + 40 * 0.02) / 4)


def test_a_sink_comes_after_the_tasks() -> None:
    made = batches(world(SimOperator("a", 0.001, 1), sink_s=0.2, sink_s_per_row=0.001), 4)[1]
    assert made.driver is not None
    assert made.driver.sink_s == pytest.approx(0.3)
    assert made.duration_s == pytest.approx(0.1 + 0.1 + 0.3)
    assert made.overhead_s == pytest.approx(0.4)
    assert made.latency is not None
    assert made.latency.max_s >= made.duration_s


def test_stateful_operators_share_a_parallelism_and_take_longer_to_restart() -> None:
    cluster = world(
        SimOperator("a", 0.001, 1),
        SimOperator("b", 0.001, 2, stateful=True, state_keys=500),
        SimOperator("c", 0.001, 2, stateful=True),
        SimOperator("d", 0.001, 3, fixed=True),
    )
    before = batches(cluster, 5)
    assert 0 < (before[0].state_rows or 0) < (before[-1].state_rows or 0) <= 500
    actions = (SetParallelism("app", "a", 4), SetParallelism("app", "b", 3), SetParallelism("app", "d", 9))
    receipt = cluster.converge(Targets().after(actions))
    assert receipt.actions[1].pause_s == pytest.approx(12.0)
    assert cluster.observe().applications[0].rebalancing
    reports = []
    for _ in range(25):
        cluster.advance_to(cluster.now_s + 1)
        sample = cluster.observe().applications[0]
        reports += [sample.rebalance] if sample.rebalance else []
    gate = cluster.gates[0]
    assert gate.parallelism == [4, 3, 3, 3], "b and c together; d does not listen"
    assert gate.restarts == cluster.reconfigurations == 1
    assert len(reports) == 1
    assert reports[0].done
    assert 12 <= (reports[0].pause_s or 0) < 16


@pytest.mark.parametrize(
    "wrong",
    [{"hot_share": 1.5}, {"works_at_once": 0}, {"communication_s_per_row": -1.0}, {"task_overhead_s": float("inf")}],
)
def test_impossible_operators_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="operator a"):
        SimOperator("a", 0.001, **wrong)


def test_scenarios_can_say_all_of_it() -> None:
    said = {"name": "join", "cost_s_per_row": 0.001, "hot_share": 0.4, "communication_s_per_row": 0.002}
    more = {"sink_s": 0.5, "driver_cpu_s": 0.2, "state_first_s": 2.5, "gated": False}
    spec = PoolApplicationSpec.model_validate({"name": "app", "load": 10, "operators": [said], **more})
    made = spec.application()
    assert {name: getattr(made, name) for name in more} == more
    assert made.operators[0] == SimOperator("join", 0.001, hot_share=0.4, communication_s_per_row=0.002)
