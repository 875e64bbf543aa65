"""A simulated Spark context behind the `Cluster` port: what the controller sees and controls without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.clock import SimClock
from tidegate.adapters.sim.executors import Executors
from tidegate.adapters.sim.faults import Fault, MetricsMissing, MetricsStale
from tidegate.adapters.sim.gate import SimGate
from tidegate.adapters.sim.knobs import Knobs
from tidegate.adapters.sim.poolworld import PoolConditions, PoolWorld
from tidegate.domain import (
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    ExecutorPool,
    HostSample,
    InvalidInput,
    Observation,
    Receipt,
    Targets,
)

_DIGITS = 4  # times are reported to 0.1 ms


class SimCluster:
    """Applications on one pool of executors, with every knob of live Spark.

    >>> words = SimApplication("words", load=100, operators=(SimOperator("count", cost_s_per_row=0.005),))
    >>> cluster = SimCluster([words], executors=1, slots_per_executor=2, seed=1)
    >>> cluster.clock.sleep_until(30.0)
    True
    >>> seen = cluster.observe()
    >>> seen.time_s, seen.pool.slots, sum(batch.rows for batch in seen.applications[0].batches) > 2000
    (30.0, 2, True)
    >>> [str(receipt.action) for receipt in cluster.converge(Targets(executors=2)).actions]
    ['executors → 2']
    """

    def __init__(
        self,
        applications: Sequence[SimApplication],
        executors: int = 1,
        slots_per_executor: int = 2,
        *,
        startup_s: float = 5.0,
        warmup_s: float = 10.0,
        warmup_speed: float = 0.5,
        max_executors: int | None = None,
        host_cpus: float | None = None,
        cold_cpus: float = 1.15,
        driver_cpus: float | None = None,
        groups: Mapping[str, str] | None = None,
        noise: float = 0.05,
        faults: Sequence[Fault] = (),
        start_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        """`host_cpus` and `driver_cpus` are unlimited by default. `groups` assigns applications to classes.

        A cold executor needs `cold_cpus` until it is warm: 8.2 CPU-seconds in 7.1 s were measured on Spark 4.3.
        """
        names = [application.name for application in applications]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"application {twice} is listed twice")
        if executors < 0:
            raise InvalidInput(f"a pool must begin with at least 0 executors, not {executors}")
        conditions = PoolConditions(host_cpus, cold_cpus, driver_cpus, noise, start_s, seed)
        for name in groups or ():
            if name not in names:
                raise InvalidInput(f"groups: no application is named {name}")
        self.executors = Executors(slots_per_executor, startup_s, warmup_s, warmup_speed, max_executors)
        self.executors.begin(executors, start_s)
        self._world = PoolWorld(applications, self.executors, conditions, groups or {}, faults)
        self._host_cpus = host_cpus
        self._knobs = Knobs(self._world)
        self.clock = SimClock(self)

    @property
    def now_s(self) -> float:
        return self._world.now_s

    @property
    def gates(self) -> tuple[SimGate, ...]:
        return self._world.gates

    @property
    def reconfigurations(self) -> int:
        return self._knobs.turned

    # the port

    def observe(self) -> Observation:
        """The current observation. Each batch appears in one observation only."""
        executors, slots = self.executors, self._world.slots
        silence = self._world.fault_now(MetricsStale)
        heard_s = self.now_s if silence is None else silence.from_s
        return Observation(
            time_s=round(self.now_s, _DIGITS),
            applications=tuple([self._sample(gate, heard_s, round(heard_s, _DIGITS)) for gate in self.gates]),
            pool=ExecutorPool(
                executors=executors.samples(slots.busy_at),
                requested=executors.requested,
                slots_per_executor=executors.slots_each,
            ),
            hosts=(self._host(),),
        )

    def converge(self, targets: Targets) -> Receipt:
        """Drive the world to these levels. This is idempotent."""
        return self._knobs.converge(targets)

    def release(self) -> None:
        """Restore every knob that was turned."""
        self._knobs.release()

    # time

    def advance_to(self, time_s: float) -> None:
        """Let simulated time pass."""
        self._world.advance_to(time_s)

    def summary(self) -> dict[str, Any]:
        """The outcome of the rows so far, and the cost, as plain values for JSON."""
        return {
            "executor_seconds": self.executors.seconds,
            "reconfigurations": self.reconfigurations,
            "applications": {
                gate.name: {
                    "rows_in": gate.rows_arrived(self.now_s),
                    "rows_out": gate.ledger.rows_done,
                    "batches": len(gate.ledger),
                    "restarts": gate.restarts,
                    "latency": gate.latencies.summary(),
                }
                for gate in self.gates
            },
        }

    def violation_rate(self, application: str, latency_s: float) -> float | None:
        """Share of the arrived rows that took longer. Rows still waiting count by their age."""
        gate = self._world.by_name.get(application)
        arrived = gate.rows_arrived(self.now_s) if gate else 0
        if gate is None or not arrived:
            return None
        return gate.ledger.late_rows(latency_s, self.now_s) / arrived

    # inside

    def _sample(self, gate: SimGate, heard_s: float, told_s: float) -> ApplicationSample:
        """What is known about an application that was last heard of at `heard_s`."""
        last_progress_s, batches, silent = gate.last_progress_s, tuple(gate.finished), heard_s < self.now_s
        if silent:
            batches = ()
            last_progress_s = None if last_progress_s is None else min(last_progress_s, heard_s)
        else:
            gate.finished = []
        if batches and self._world.fault_now(MetricsMissing) is not None:
            batches = tuple(without_stages(batch) for batch in batches)
        rebalance, gate.rebalance = gate.rebalance, None
        return ApplicationSample(
            name=gate.name,
            batches=batches,
            last_progress_s=None if last_progress_s is None else round(last_progress_s, _DIGITS),
            interval_s=gate.interval_s,
            in_batch=gate.in_batch,
            admission_rows=gate.admission_rows,
            running_batch=None if silent else gate.running_batch(),
            arrival=ArrivalSample(told_s, gate.rows_arrived(heard_s)),
            gated=gate.application.gated,
            restartable=gate.application.restartable,
            rebalancing=gate.restarting,
            rebalance=rebalance,
            state_places=gate.state.where if gate.state is not None else (),
            state_movable=gate.state is not None,
        )

    def _host(self) -> HostSample:
        """Utilisation since the last observation: of the CPUs if they are limited, otherwise of the slots."""
        world, slots = self._world, self.executors.slots
        busy, pressure = None, None
        if self._host_cpus is not None and world.watched_s > 0:
            busy = min(1.0, world.cpu_s / (self._host_cpus * world.watched_s))
            pressure = world.crowded_s / world.watched_s
        elif world.offered_s > 0:
            busy = world.busy_s / world.offered_s
        world.look_away()
        cpus = slots if self._host_cpus is None else max(1, round(self._host_cpus))
        return HostSample(name="sim", cpus=cpus, cpu_busy=busy, cpu_pressure=pressure)


def without_stages(batch: BatchSample) -> BatchSample:
    """What remains of a batch's report if stages and latency could not be read."""
    return replace(batch, busy_s=None, overhead_s=None, backlog_rows=None, latency=None, operators=(), driver=None)


__all__ = ["SimApplication", "SimCluster", "SimOperator"]
