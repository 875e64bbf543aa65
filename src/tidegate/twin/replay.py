"""Runs a twin with the recorded pool sizes or under another policy."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.simulation import PoolRun
from tidegate.domain import InvalidInput, Targets
from tidegate.domain.policy import Policy
from tidegate.twin.recordedrun import Recording


@dataclass(frozen=True)
class Played:
    """One run of the twin, in numbers and over time."""

    late: dict[str, float]
    p99_s: dict[str, float]
    executor_seconds: float
    times_s: list[float]
    executors: list[float]
    latency_s: dict[str, list[float]]

    def outcome(self, name: str) -> dict[str, float]:
        return {"late": self.late[name], "executor_seconds": self.executor_seconds, "p99_s": self.p99_s[name]}


def as_recorded(scenario: Scenario, recording: Recording, policy: Policy) -> Played:
    """Run without a controller: the pool has the sizes requested in the recording."""
    run = _pool(scenario)
    for time_s, size in recording.requested:
        run.advance_to(time_s - recording.start_s)
        run.cluster.converge(Targets(executors=size))
    run.advance_to(scenario.duration_s)
    return _played(run, policy)


def under(scenario: Scenario, policy: Policy) -> Played:
    """Run under the controller with this policy."""
    if scenario.pool is None:
        raise InvalidInput("the scenario has no pool to control; add one")
    run = _pool(scenario.model_copy(update={"pool": scenario.pool.model_copy(update={"policy": policy})}))
    run.advance_to(scenario.duration_s)
    return _played(run, policy)


def _pool(scenario: Scenario) -> PoolRun:
    if scenario.pool is None:
        raise InvalidInput("the scenario has no pool; add one")
    return PoolRun(scenario.pool, scenario.seed, None)


def _played(run: PoolRun, policy: Policy) -> Played:
    summary = run.cluster.summary()
    names = list(summary["applications"])
    applications, executors = run.applications.table(), run.executors.table()
    return Played(
        late={name: run.cluster.violation_rate(name, policy.objective_of(name).latency_s) or 0.0 for name in names},
        p99_s={name: float(summary["applications"][name]["latency"]["p99_s"] or 0.0) for name in names},
        executor_seconds=float(summary["executor_seconds"]),
        times_s=executors.time_s.tolist(),
        executors=executors.columns["executors"][:, 0].tolist(),
        latency_s={name: applications.columns["latency_p99_s"][:, place].tolist() for place, name in enumerate(names)},
    )
