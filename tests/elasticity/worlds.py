"""Samples and closed loops that the tests of operator elasticity share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.analysis.bottleneck import ApplicationMetrics, aggregate
from tidegate.control.entry import Entry
from tidegate.domain import ApplicationSample, BatchSample, DriverTimes, LatencySample, OperatorSample
from tidegate.domain.policy import Policy
from tidegate.experiments.identification import steer
from tidegate.sim.application import SimApplication, SimOperator
from tidegate.sim.cluster import SimCluster

SLOTS = 6
LINES = SimOperator("lines", 0.0001, 1, task_overhead_s=0.01)
SPLIT = SimOperator("split", 0.0012, 1, task_overhead_s=0.01)
COUNT = SimOperator("count", 0.0006, 1, task_overhead_s=0.01)
WORDS = SimApplication("words", 400, 1.0, 0.1, operators=(LINES, SPLIT, COUNT))


def operator(name: str, **changes: Any) -> OperatorSample:
    """100 rows in 1 s of a slot."""
    values: dict[str, Any] = {
        "name": name,
        "parallelism": 1,
        "rows_in": 100,
        "busy_s": 1.0,
        "cpu_s": 1.0,
        "communication_s": 0.0,
        "execute_latency_s": 1.0,
        "rows_out": 100,
    }
    return OperatorSample(**{**values, **changes})


def batch(number: int, *operators: OperatorSample, **changes: Any) -> BatchSample:
    """A batch every two seconds, of which 0.2 s are the driver's."""
    duration_s = 0.2 + sum(stage.execute_latency_s or 0.0 for stage in operators)
    values: dict[str, Any] = {
        "batch_id": number,
        "started_s": 100.0 + 2 * number,
        "duration_s": duration_s,
        "rows": 100,
        "busy_s": sum(stage.busy_s for stage in operators),
        "overhead_s": 0.2,
        "backlog_rows": 0,
        "operators": operators,
        "latency": LatencySample(100, duration_s + 1, duration_s + 1.8, duration_s + 2, duration_s + 2),
        "driver": DriverTimes(0.1, 0.04, 0.06),
    }
    return BatchSample(**{**values, **changes})


def metrics_of(
    *operators: OperatorSample, interval_s: float = 1.0, batches: int = 5, **changes: Any
) -> ApplicationMetrics:
    made = tuple(batch(number, *operators, **changes) for number in range(batches))
    found = aggregate(ApplicationSample("app", made, made[-1].committed_s, interval_s), made)
    assert found is not None
    return found


def with_operators(*operators: SimOperator, **changes: Any) -> SimApplication:
    return replace(WORDS, operators=operators, **changes)


def run(
    *applications: SimApplication, objective_s: float, until_s: float = 120, slots: int = SLOTS, **policy: Any
) -> tuple[SimCluster, list[Entry]]:
    """A closed loop in the simulator under the me-stream planner."""
    cluster = SimCluster(applications, slots // 2, 2, seed=1)
    whole = Policy.model_validate({"planner": "me-stream", "objective": {"latency_s": objective_s}, **policy})
    return cluster, list(steer(cluster, whole, until_s))


def codes(entries: list[Entry]) -> set[str]:
    return {reason.code for entry in entries if entry.decision for reason in entry.decision.reasons}


def text_of(entries: list[Entry], code: str) -> str:
    """The first reason with that code."""
    found = (r.text for entry in entries if entry.decision for r in entry.decision.reasons if r.code == code)
    return next(found)


def rescales(entries: list[Entry]) -> list[list[str]]:
    return [
        [str(action) for action in entry.decision.actions]
        for entry in entries
        if entry.decision and entry.decision.actions
    ]
