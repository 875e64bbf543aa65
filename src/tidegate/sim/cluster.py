"""A simulated Spark cluster behind the `Cluster` port: what the controller sees and steers where there is no JVM.

One host of the plant stands for the pool; its capacity is that of the executors which are registered and how warm
they are. Applications share it in proportion to demand. Batches, stages and overhead are those of `gate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from tidegate.domain import (
    Action,
    ActionReceipt,
    ApplicationSample,
    BatchSample,
    Decision,
    ExecutorPool,
    HostSample,
    InvalidInput,
    Observation,
    Outcome,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
)
from tidegate.sim.application import SimApplication, SimOperator
from tidegate.sim.clock import SimClock
from tidegate.sim.executors import Executors
from tidegate.sim.faults import ExecutorLost, Fault, MetricsMissing, MetricsStale, SlowStart
from tidegate.sim.gate import Gate, without_stages
from tidegate.sim.plant import CPU, Link, Plant, Task

_TICK_S = 1e-9
_Lasting = TypeVar("_Lasting", MetricsMissing, MetricsStale, SlowStart)
_INSTANT_S = 1e-6  # what a stage without cost takes


class SimCluster:
    """Applications on one pool of executors.

    >>> words = SimApplication("words", load=100, operators=(SimOperator("count", cost_s_per_row=0.005),))
    >>> cluster = SimCluster([words], executors=1, slots_per_executor=2, seed=1)
    >>> cluster.clock.sleep_until(30.0)
    True
    >>> seen = cluster.observe()
    >>> seen.time_s, seen.pool.slots, sum(batch.rows for batch in seen.applications[0].batches) > 2000
    (30.0, 2, True)
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
        noise: float = 0.05,
        faults: Sequence[Fault] = (),
        start_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        names = [application.name for application in applications]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(f"application {name} is there twice")
        if executors < 0:
            raise InvalidInput(f"a pool begins with 0 or more executors, not {executors}")
        self.executors = Executors(slots_per_executor, startup_s, warmup_s, warmup_speed, max_executors)
        self.executors.begin(executors, start_s)
        self.plant, self.gates = _build(applications, start_s, seed, noise)
        self.clock = SimClock(self)
        self.reconfigurations = 0
        self._faults = tuple(faults)
        self._lost = {fault for fault in faults if isinstance(fault, ExecutorLost)}
        self._unseen: dict[str, list[BatchSample]] = {name: [] for name in names}
        self._busy_slots = 0.0
        self._busy_s = 0.0
        self._offered_s = 0.0

    @property
    def now_s(self) -> float:
        return self.plant.now_s

    # the port

    def observe(self) -> Observation:
        now_s = self.now_s
        slots, _ = self.executors.power(now_s)
        busy_share = self._busy_s / self._offered_s if self._offered_s > 0 else None
        self._busy_s = self._offered_s = 0.0
        return Observation(
            time_s=now_s,
            applications=tuple(self._sample(gate) for gate in self.gates),
            pool=ExecutorPool(
                executors=self.executors.samples(now_s, self._busy_slots),
                requested=self.executors.requested,
                slots_per_executor=self.executors.slots_each,
            ),
            hosts=(HostSample(name="sim", cpus=slots, cpu_busy=busy_share),),
        )

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(tuple(self._apply(action) for action in decision.actions))

    # time

    def advance_to(self, time_s: float) -> None:
        """Let simulated time pass."""
        while self.now_s < time_s - _TICK_S:
            now_s = self.now_s
            self._strike(now_s)
            for gate in self.gates:
                if gate.sink_done(now_s):
                    self._commit(gate, now_s)
                if gate.wakes_s <= now_s + _TICK_S:
                    gate.wake(now_s)
            self._serve(time_s)

    def summary(self) -> dict[str, Any]:
        """What became of the rows so far, and what it cost; plain values for JSON."""
        return {
            "executor_seconds": self.executors.seconds,
            "reconfigurations": self.reconfigurations,
            "applications": {
                gate.name: {
                    "rows_in": gate.rows_arrived(self.now_s),
                    "rows_out": gate.commits[-1].end if gate.commits else 0,
                    "batches": len(gate.commits),
                    "restarts": gate.restarts,
                    "latency": gate.latencies.summary(),
                }
                for gate in self.gates
            },
        }

    def violation_rate(self, application: str, latency_s: float) -> float | None:
        """Share of the rows that came and took longer; rows still waiting count at their age."""
        gate = self._gate(application)
        arrived = gate.rows_arrived(self.now_s) if gate else 0
        if gate is None or not arrived:
            return None
        return gate.late_rows(latency_s, self.now_s) / arrived

    # inside

    def _serve(self, until_s: float) -> None:
        """Let every running stage work at one constant speed until something changes.

        A stage asks for as many slots as it has tasks; where all ask for more than there are, each gets its part.
        """
        now_s, plant = self.now_s, self.plant
        slots, speed = self.executors.power(now_s)
        running = [(gate, task) for gate in self.gates if (task := gate.task) is not None]
        asked = sum(gate.slots_asked for gate, _ in running)
        granted = min(1.0, slots / asked) if asked else 0.0
        next_s = min(until_s, self.executors.next_change_s(now_s), self._next_fault_s(now_s))
        next_s = min([next_s, *(gate.wakes_s for gate in self.gates)])
        arrivals = np.zeros((1, plant.sources))
        plant.state.capacity[0, CPU] = slots * speed
        for gate, task in running:
            plant.state.cap[task] = gate.slots_asked * speed
            if granted > 0:
                work_s = gate.rows_left() * float(plant.state.cost[task, CPU])
                next_s = min(next_s, now_s + max(_INSTANT_S, work_s / (gate.slots_asked * speed * granted)))
            arrivals[0, gate.source] = gate.pushed_rows
            gate.pushed_rows = 0.0
        before = plant.processed()
        plant.advance(arrivals, next_s - now_s)
        plant.now_s = next_s
        rows = plant.processed() - before
        self.executors.pass_time(now_s, next_s)
        self._busy_slots = asked * granted
        self._busy_s += self._busy_slots * (next_s - now_s)
        self._offered_s += slots * (next_s - now_s)
        for gate, task in running:
            # a slow slot is held for longer: busy time is work over speed
            work_s = float(rows[task] * plant.state.cost[task, CPU]) / speed
            if gate.served(work_s, slots, next_s):
                self._commit(gate, next_s)

    def _commit(self, gate: Gate, now_s: float) -> None:
        there = [executor.id for executor in self.executors.samples(now_s, 0.0)]
        self._unseen[gate.name].append(gate.commit(now_s, there))
        self.executors.batch_ended(gate.name)

    def _sample(self, gate: Gate) -> ApplicationSample:
        silence = self._fault_now(MetricsStale)
        batches = tuple(self._unseen[gate.name]) if silence is None else ()
        last_progress_s = gate.last_progress_s
        if silence is None:
            self._unseen[gate.name] = []
        elif last_progress_s is not None:
            last_progress_s = min(last_progress_s, silence.from_s)
        if self._fault_now(MetricsMissing) is not None:
            batches = tuple(without_stages(batch) for batch in batches)
        rebalance, gate.rebalance = gate.rebalance, None
        return ApplicationSample(
            name=gate.name,
            batches=batches,
            last_progress_s=last_progress_s,
            interval_s=gate.interval_s,
            admission_rows=gate.admission_rows,
            gated=gate.application.gated,
            restartable=gate.application.restartable,
            rebalancing=gate.restarting,
            rebalance=rebalance,
        )

    def _apply(self, action: Action) -> ActionReceipt:
        if isinstance(action, ScaleExecutors):
            return self._scale(action)
        if isinstance(action, SetShare):
            return ActionReceipt(action, Outcome.REFUSED, "this cluster has no shares to set")
        gate = self._gate(action.application)
        if gate is None:
            return ActionReceipt(action, Outcome.REFUSED, f"no application named {action.application}")
        if isinstance(action, SetAdmission):
            if not gate.application.gated:
                return ActionReceipt(action, Outcome.REFUSED, f"the source of {gate.name} has no gate")
            gate.admission_rows = action.rows_per_trigger
            return ActionReceipt(action, Outcome.DONE, pause_s=0.0)
        if not gate.application.restartable:
            return ActionReceipt(action, Outcome.REFUSED, f"{gate.name} cannot be restarted")
        if isinstance(action, SetBatchInterval):
            changed = gate.interval_s != action.interval_s
            gate.interval_s = action.interval_s
            return self._reconfigure(action, gate, changed)
        names = [operator.name for operator in gate.application.operators]
        if action.operator not in names:
            return ActionReceipt(action, Outcome.REFUSED, f"{gate.name} has no operator {action.operator}")
        fixed = gate.application.operators[names.index(action.operator)].fixed
        changed = gate.set_parallelism(action.operator, action.parallelism)
        return self._reconfigure(action, gate, changed or (fixed and not gate.restarting))

    def _scale(self, action: ScaleExecutors) -> ActionReceipt:
        if self.executors.most is not None and action.target > self.executors.most:
            return ActionReceipt(action, Outcome.REFUSED, f"the cluster has room for {self.executors.most} executors")
        if action.target != self.executors.requested:
            self.reconfigurations += 1
            in_batch = [gate.name for gate in self.gates if gate.in_batch]
            slow = self._fault_now(SlowStart)
            self.executors.request(action.target, self.now_s, in_batch, slow.startup_s if slow else None)
        settled = self.executors.settled(self.now_s)
        return ActionReceipt(action, Outcome.DONE if settled else Outcome.UNDER_WAY, pause_s=0.0)

    def _reconfigure(self, action: SetBatchInterval | SetParallelism, gate: Gate, changed: bool) -> ActionReceipt:
        if not changed:
            return ActionReceipt(action, Outcome.UNDER_WAY if gate.restarting else Outcome.DONE, pause_s=0.0)
        if not gate.restarting:
            self.reconfigurations += 1
        gate.restart()
        return ActionReceipt(action, Outcome.UNDER_WAY, pause_s=gate.pause_s)

    def _gate(self, name: str) -> Gate | None:
        return next((gate for gate in self.gates if gate.name == name), None)

    def _strike(self, now_s: float) -> None:
        for fault in sorted(self._lost, key=lambda fault: fault.at_s):
            if fault.at_s <= now_s + _TICK_S:
                self._lost.discard(fault)
                share = self.executors.lose(now_s)
                for gate in self.gates:
                    gate.rework(share)

    def _next_fault_s(self, now_s: float) -> float:
        return min((fault.at_s for fault in self._lost if fault.at_s > now_s + _TICK_S), default=math.inf)

    def _fault_now(self, kind: type[_Lasting]) -> _Lasting | None:
        for fault in self._faults:
            if isinstance(fault, kind) and fault.from_s <= self.now_s < fault.until_s:
                return fault
        return None


def _build(
    applications: Sequence[SimApplication], start_s: float, seed: int, noise: float
) -> tuple[Plant, tuple[Gate, ...]]:
    """One task for every operator, all on the pool's host; the first of each application reads its gate."""
    tasks: list[Task] = []
    links: list[Link] = []
    firsts: list[int] = []
    for number, application in enumerate(applications):
        first = len(tasks)
        firsts.append(first)
        for index, operator in enumerate(application.operators):
            tasks.append(Task(f"{application.name}.{operator.name}", number, (operator.cost_s_per_row,), greedy=True))
            links.extend(
                Link(first + index, first + parent, application.operators[parent].selectivity)
                for parent in application.inputs_of(index)
            )
        links.append(Link(first))
    plant = Plant(tasks, links, [[0.0]], start_s=start_s)
    for task in range(len(tasks)):
        plant.start(task)
        plant.place(task, host=0)
        plant.state.active[task] = False
    gates = tuple(
        Gate(application, plant, firsts[number], number, (seed, number), noise)
        for number, application in enumerate(applications)
    )
    return plant, gates


__all__ = ["SimApplication", "SimCluster", "SimOperator"]
