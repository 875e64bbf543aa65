"""A policy that changes while the load does not: the pool follows what is asked of it."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.domain.policy import Policy

SETTLED_S, FOLLOWED_S = 120, 60


def table(percentile: float) -> dict[str, Any]:
    return {"applications": {"job": {"qos_table": [{"metric": "latency_s", "bound": 3.2, "percentile": percentile}]}}}


GRAPH = {"applications": {"job": {"qos_graphs": [{"metric": "latency_p99_s", "points": [[2.6, 1.0], [4.0, 0.0]]}]}}}


def policy(asked: dict[str, Any]) -> Policy:
    return Policy.model_validate({"executors": {"min": 1, "max": 6}, **asked})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"objective": {"latency_s": 10}}, {"objective": {"latency_s": 3}}),
        ({}, GRAPH),
        (table(0.5), table(0.99)),
    ],
    ids=["a shorter objective", "a new graph", "more rows within a bound"],
)
def test_the_pool_grows_for_a_stricter_policy_under_a_steady_load(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    job = SimApplication(
        "job", 300.0, interval_s=2.0, overhead_s=0.3, operators=(SimOperator("work", 0.005, parallelism=12),)
    )
    cluster = SimCluster([job], executors=2, slots_per_executor=2, startup_s=3.0, max_executors=6, noise=0.0)
    controller = Controller(policy(before))

    def run(from_s: int, to_s: int) -> int:
        for second in range(from_s, to_s):
            cluster.clock.sleep_until(float(second))
            decision = controller.step(cluster.observe())
            controller.learn(decision, cluster.converge(controller.knowledge.targets.after(decision.actions)))
        return cluster.observe().pool.requested

    settled = run(0, SETTLED_S)
    controller.take_policy(policy(after))
    assert run(SETTLED_S, SETTLED_S + FOLLOWED_S) > settled
