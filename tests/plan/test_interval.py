"""The batch interval: longer where batches eat the slots, shorter where latency counts, otherwise left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import Entry, MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import SetBatchInterval
from tidegate.domain.policy import Policy
from tidegate.plan.interval import BatchInterval

CHATTY = SimOperator("work", 0.001, parallelism=60, task_overhead_s=0.05)
"""Three slot-seconds a batch for nothing but its tasks."""


def run(application: SimApplication, until_s: float = 160.0, **policy: Any) -> tuple[SimCluster, list[Entry]]:
    cluster, journal = SimCluster([application], executors=4, slots_per_executor=2, seed=1), MemoryJournal()
    rule = {"executors": {"min": 4, "max": 4}, **policy}
    controller = Controller(Policy.model_validate(rule), proposers=[BatchInterval()])
    Runner(cluster, controller, cluster.clock, journal, journal).run(until_s=until_s)
    return cluster, list(journal.entries)


def asked(entries: list[Entry]) -> list[float]:
    return [
        action.interval_s
        for entry in entries
        for action in (entry.decision.actions if entry.decision else ())
        if isinstance(action, SetBatchInterval)
    ]


def varied(base: float) -> dict[str, Any]:
    return {"kind": "sinusoid", "baseline": base, "amplitude": base / 2, "period_s": 30}


def test_a_longer_interval_saves_slots_within_the_objective() -> None:
    chatty = SimApplication("chatty", varied(2000), interval_s=1.0, operators=(CHATTY,), restart_s=1.0)
    _, entries = run(chatty, objective={"latency_s": 20.0})
    assert asked(entries)[:1] == [2.0]
    said = next(entry.decision for entry in entries if entry.decision and entry.decision.actions)
    assert "save" in next(reason.text for reason in said.reasons if reason.code == "longer-interval")
    assert said.predictions, "what it promises is journalled"
    assert any(entry.decision.judged for entry in entries if entry.decision), "and judged when it is due"


def test_a_tight_objective_leaves_no_room_for_it() -> None:
    chatty = SimApplication("chatty", varied(2000), interval_s=1.0, operators=(CHATTY,))
    assert asked(run(chatty, objective={"latency_s": 3.0})[1]) == []


def test_an_interval_that_is_too_long_for_the_objective_is_halved() -> None:
    slow = SimApplication("slow", varied(100), interval_s=8.0, gated=False, operators=(SimOperator("work", 0.002),))
    _, entries = run(slow, objective={"latency_s": 9.0})
    assert asked(entries)[:1] == [4.0]


def test_a_graph_says_that_faster_is_worth_it() -> None:
    slow = SimApplication("slow", varied(100), interval_s=8.0, gated=False, operators=(SimOperator("work", 0.002),))
    graph = {"metric": "latency_p99_s", "points": [[2, 1.0], [12, 0.0]]}
    patient = run(slow, objective={"latency_s": 60.0})[1]
    eager = run(slow, objective={"latency_s": 60.0}, applications={"slow": {"qos_graphs": [graph]}})[1]
    assert asked(patient) == []
    assert asked(eager)[:1] == [4.0]


@pytest.mark.parametrize("policy", [{"knobs": {"interval": False}}, {"mode": "recommend"}])
def test_the_policy_rules(policy: dict[str, Any]) -> None:
    slow = SimApplication("slow", varied(100), interval_s=8.0, gated=False, operators=(SimOperator("work", 0.002),))
    cluster, _ = run(slow, objective={"latency_s": 9.0}, **policy)
    assert cluster.gates[0].interval_s == 8.0
