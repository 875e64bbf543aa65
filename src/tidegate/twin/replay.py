"""Runs a twin with the recorded pool sizes or under another policy."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.simulation import PoolRun
from tidegate.domain import InvalidInput, Targets
from tidegate.domain.policy import Policy
from tidegate.twin.recordedrun import Recording, RunOutcome


@dataclass(frozen=True)
class Played:
    """One run of the twin, in numbers and over time."""

    late: dict[str, float]
    p99_s: dict[str, float]
    batches_s: dict[str, list[float]]
    """The duration of every batch."""
    executor_seconds: float
    times_s: list[float]
    executors: list[float]
    latency_s: dict[str, list[float]]

    def outcome(self, name: str) -> RunOutcome:
        batches_s = self.batches_s[name]
        return RunOutcome(
            executor_seconds=self.executor_seconds,
            batch_p50_s=median(batches_s) if batches_s else None,
            late=self.late[name],
            p99_s=self.p99_s[name],
        )


def as_recorded(scenario: Scenario, recording: Recording, policy: Policy) -> Played:
    """Run without a controller: the pool has the sizes requested in the recording.

    If only registrations were recorded, executors are requested when they registered, and start at once.
    """
    run = _pool(scenario, startup_s=None if recording.requested else 0.0)
    for time_s, size in recording.requested or recording.registered:
        run.advance_to(time_s - recording.start_s)
        run.cluster.converge(Targets(executors=size))
    run.advance_to(scenario.duration_s)
    return _played(run, policy)


def under(scenario: Scenario, policy: Policy) -> Played:
    """Run under the controller with this policy."""
    run = _pool(scenario, policy=policy)
    run.advance_to(scenario.duration_s)
    return _played(run, policy)


def _pool(scenario: Scenario, *, policy: Policy | None = None, startup_s: float | None = None) -> PoolRun:
    if scenario.pool is None:
        raise InvalidInput("the scenario has no pool; add one")
    changes = {"policy": policy, "startup_s": startup_s}
    pool = scenario.pool.model_copy(update={name: value for name, value in changes.items() if value is not None})
    return PoolRun(pool, scenario.seed, None)


def _played(run: PoolRun, policy: Policy) -> Played:
    summary = run.cluster.summary()
    names = list(summary["applications"])
    applications, executors = run.applications.table(), run.executors.table()
    return Played(
        late={name: run.cluster.violation_rate(name, policy.objective_of(name).latency_s) or 0.0 for name in names},
        p99_s={name: float(summary["applications"][name]["latency"]["p99_s"] or 0.0) for name in names},
        batches_s={name: run.batches_s[name] for name in names},
        executor_seconds=float(summary["executor_seconds"]),
        times_s=executors.time_s.tolist(),
        executors=executors.columns["executors"][:, 0].tolist(),
        latency_s={name: applications.columns["latency_p99_s"][:, place].tolist() for place, name in enumerate(names)},
    )
