"""Runs a scenario: hosts with events, a pool under the controller, or both side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate import extensions
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.adapters.sim.platform import Platform
from tidegate.adapters.sim.poolspec import PoolSpec
from tidegate.adapters.sim.result import Recorder, SimulationResult
from tidegate.adapters.sim.scenario import Scenario
from tidegate.adapters.sim.scenariofile import check
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import Decision, Observation


class Simulation:
    """A running scenario.

    >>> from tidegate.adapters.sim.scenariofile import parse_scenario
    >>> scenario = parse_scenario('''
    ... duration_s: 100
    ... hosts: [{name: h, cpu: 1}]
    ... applications: [{name: a, load: 8, operators: [{name: work, cost: 0.1}]}]
    ... ''')
    >>> result = Simulation(scenario).run()
    >>> result.summary["applications"]["a"]["rows_out"], round(result.summary["hosts"]["h"]["utilisation"], 3)
    (800.0, 0.8)
    """

    def __init__(self, scenario: Scenario, controller: str | None = None) -> None:
        check(scenario)
        self.scenario = scenario
        self.platform = Platform(scenario) if scenario.all_applications() else None
        self.pool = PoolRun(scenario.pool, scenario.seed, controller) if scenario.pool is not None else None
        self.now_s = 0.0

    @property
    def done(self) -> bool:
        return self.now_s >= self.scenario.duration_s - 1e-9

    def advance_to(self, time_s: float) -> None:
        """Advance simulated time, at most to the scenario's end."""
        time_s = min(time_s, self.scenario.duration_s)
        if self.platform is not None:
            self.platform.advance_to(time_s)
        if self.pool is not None:
            self.pool.advance_to(time_s)
        self.now_s = time_s

    def run(self) -> SimulationResult:
        """Run to the end, as fast as possible."""
        self.advance_to(self.scenario.duration_s)
        return self.result()

    def result(self) -> SimulationResult:
        """The result so far."""
        summary: dict[str, Any] = {
            "name": self.scenario.name,
            "seed": self.scenario.seed,
            "duration_s": self.now_s,
        }
        if self.platform is not None:
            summary |= self.platform.summary()
        if self.pool is not None:
            summary["pool"] = self.pool.summary()
        return SimulationResult(
            summary=summary,
            applications=self.platform.applications.table() if self.platform else None,
            hosts=self.platform.hosts.table() if self.platform else None,
            pool_applications=self.pool.applications.table() if self.pool else None,
            pool=self.pool.executors.table() if self.pool else None,
        )


class PoolRun:
    """A simulated cluster and, if there is a policy, its controller."""

    def __init__(self, spec: PoolSpec, seed: int, controller: str | None = None) -> None:
        self.spec = spec
        self.cluster = SimCluster(
            [application.application() for application in spec.applications],
            spec.executors,
            spec.slots_per_executor,
            startup_s=spec.startup_s,
            warmup_s=spec.warmup_s,
            warmup_speed=spec.warmup_speed,
            max_executors=spec.max_executors,
            host_cpus=spec.host_cpus,
            cold_cpus=spec.cold_cpus,
            driver_cpus=spec.driver_cpus,
            groups={
                application.name: group for application in spec.applications if (group := spec.group_of(application))
            },
            noise=spec.noise,
            faults=tuple(fault.fault() for fault in spec.faults),
            seed=seed,
        )
        self.journal = MemoryJournal()
        self.applications = Recorder(tuple(application.name for application in spec.applications))
        self.executors = Recorder(("pool",))
        self.batches_s: dict[str, list[float]] = {application.name: [] for application in spec.applications}
        """The duration of every batch so far."""
        self.last_decision: Decision | None = None
        self._watch = _Watcher(self.cluster)
        self._runner: Runner | None = None
        self._interval_s = 1.0
        self._due_s = 0.0
        if spec.policy is not None:
            self._interval_s = spec.policy.interval_s
            planner = extensions.make("controllers", controller) if controller is not None else None
            pilot = Controller(spec.policy, planner=planner)
            self._runner = Runner(self._watch, pilot, self.cluster.clock, self.journal, self.journal)

    def advance_to(self, time_s: float) -> None:
        while self._due_s <= time_s + 1e-9:
            self.cluster.advance_to(self._due_s)
            if self._runner is None:
                self._watch.observe()
            else:
                decision = self._runner.tick()
                if decision is not None and (decision.actions or self.last_decision is None):
                    self.last_decision = decision
            self._record()
            self._due_s += self._interval_s
        self.cluster.advance_to(time_s)

    def summary(self) -> dict[str, Any]:
        summary = self.cluster.summary()
        policy = self.spec.policy
        for name, application in summary["applications"].items():
            if policy is not None:
                objective = policy.objective_of(name)
                application["objective_s"] = objective.latency_s
                application["violation_rate"] = self.cluster.violation_rate(name, objective.latency_s)
        summary["decisions"] = [
            {
                "time_s": entry.decision.time_s,
                "actions": [str(action) for action in entry.decision.actions],
                "reasons": [reason.text for reason in entry.decision.reasons],
            }
            for entry in self.journal.entries
            if entry.decision is not None and entry.decision.actions
        ]
        return summary

    def _record(self) -> None:
        seen = self._watch.seen
        if seen is None:
            return
        for sample in seen.applications:
            self.batches_s[sample.name] += [batch.duration_s for batch in sample.batches]
        now_s = self.cluster.now_s
        arrived = np.array([gate.rows_arrived(now_s) for gate in self.cluster.gates], dtype=np.float64)
        done = np.array([gate.ledger.rows_done for gate in self.cluster.gates], dtype=np.float64)
        latest = [
            next((batch.latency.p99_s for batch in reversed(sample.batches) if batch.latency), None)
            for sample in seen.applications
        ]
        self.applications.record(
            now_s,
            rows_in_per_s=(arrived - self.applications.latest("rows_in")) / self._interval_s,
            rows_in=arrived,
            rows_out=done,
            queued=arrived - done,
            latency_p99_s=np.array([np.nan if value is None else value for value in latest]),
        )
        self.executors.record(
            now_s,
            executors=np.array([seen.pool.registered]),
            requested=np.array([seen.pool.requested]),
            slots=np.array([seen.pool.slots]),
        )


class _Watcher:
    """The cluster, with its latest observation kept for the tables."""

    def __init__(self, cluster: SimCluster) -> None:
        self.seen: Observation | None = None
        self._cluster = cluster
        self.converge = cluster.converge
        self.release = cluster.release

    def observe(self) -> Observation:
        self.seen = self._cluster.observe()
        return self.seen
