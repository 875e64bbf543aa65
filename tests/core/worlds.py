"""Samples and loops that the tests of the core share."""

from __future__ import annotations

from typing import Any

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import Entry, MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import (
    ApplicationSample,
    BatchSample,
    ExecutorPool,
    ExecutorSample,
    Observation,
    OperatorSample,
    ScaleExecutors,
)
from tidegate.domain.policy import Policy
from tidegate.load import LoadProfile

SLOTS = 4


def pool(executors: int, requested: int | None = None, slots: int = SLOTS) -> ExecutorPool:
    members = tuple(ExecutorSample(str(number), "host", slots, 0, 0.0) for number in range(executors))
    return ExecutorPool(members, executors if requested is None else requested, slots)


def batch(number: int, started_s: float, rows: int, **changes: Any) -> BatchSample:
    """A batch of half a second whose rows cost 5 ms each."""
    busy_s = 0.005 * rows
    operator = OperatorSample("work", 64, rows, busy_s, busy_s, 0.0, 0.4, rows)
    values: dict[str, Any] = {
        "batch_id": number,
        "started_s": started_s,
        "duration_s": 0.5,
        "rows": rows,
        "busy_s": busy_s,
        "overhead_s": 0.1,
        "backlog_rows": 0,
        "operators": (operator,),
    }
    return BatchSample(**{**values, **changes})


def application(batches: tuple[BatchSample, ...], **changes: Any) -> ApplicationSample:
    last_s = batches[-1].committed_s if batches else None
    values: dict[str, Any] = {"name": "app", "batches": batches, "last_progress_s": last_s, "interval_s": 1.0}
    return ApplicationSample(**{**values, **changes})


def steady(rows: int, steps: int, executors: int, start_s: float = 1000.0) -> list[Observation]:
    """An observation a second, each with the batch of the second before it."""
    return [
        Observation(start_s + step + 0.6, (application((batch(step, start_s + step, rows),)),), pool(executors))
        for step in range(steps)
    ]


def simulated(
    load: LoadProfile, policy: Policy, until_s: float, executors: int = 1, seed: int = 0, **changes: Any
) -> tuple[SimCluster, list[Entry]]:
    """A closed loop in the simulator: WordCount-like, 5 ms a row, the controller of the policy."""
    job = SimApplication(
        "app",
        load,
        interval_s=1.0,
        overhead_s=0.3,
        operators=(
            SimOperator("read", cost_s_per_row=0.0001, parallelism=2),
            SimOperator("look-up", cost_s_per_row=0.005, parallelism=32),
        ),
    )
    cluster = SimCluster(applications=[job], executors=executors, slots_per_executor=SLOTS, seed=seed, **changes)
    journal = MemoryJournal()
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=until_s)
    return cluster, journal.entries


def sizes(entries: list[Entry]) -> list[tuple[float, int]]:
    """When the pool was resized, and to what."""
    return [
        (entry.time_s, action.target)
        for entry in entries
        if entry.decision
        for action in entry.decision.actions
        if isinstance(action, ScaleExecutors)
    ]
