"""The event loop of a simulated Spark context: from one event to the next.

Between two events everything runs at a constant pace, so no time steps are needed. An event is a trigger, the end of an
overhead, a stage or a sink, an executor that registers or gets warm, or a fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop
from typing import TypeVar

from tidegate.adapters.sim.application import SimApplication
from tidegate.adapters.sim.driver import SimDriver
from tidegate.adapters.sim.executors import Executors
from tidegate.adapters.sim.faults import ExecutorLost, Fault, MetricsMissing, MetricsStale, SlowStart
from tidegate.adapters.sim.gate import Shared, SimGate
from tidegate.adapters.sim.lanes import Lane
from tidegate.adapters.sim.slots import Slots
from tidegate.domain import InvalidInput
from tidegate.load import LoadProfile, Timeline

_TICK_S = 1e-9
_LEAST_WEIGHT = 0.01
_Lasting = TypeVar("_Lasting", MetricsMissing, MetricsStale, SlowStart)


@dataclass(frozen=True, slots=True)
class PoolConditions:
    """What a simulated context runs on: the CPUs of its host and driver, noise, and when time begins."""

    host_cpus: float | None
    """None: no limit."""
    cold_cpus: float
    """CPUs that an executor needs until it is warm."""
    driver_cpus: float | None
    noise: float
    start_s: float
    seed: int

    def __post_init__(self) -> None:
        for what, cpus in (("host", self.host_cpus), ("driver", self.driver_cpus)):
            if cpus is not None and not 0 < cpus < math.inf:
                raise InvalidInput(f"the {what} must have more than 0 CPUs, not {cpus}; leave it out for no limit")
        if not 0 <= self.cold_cpus < math.inf:
            raise InvalidInput(f"a cold executor must need at least 0 CPUs, not {self.cold_cpus}")


class PoolWorld:
    """Applications, the executors and the driver that they share, and the simulated time."""

    def __init__(
        self,
        applications: Sequence[SimApplication],
        executors: Executors,
        conditions: PoolConditions,
        groups: Mapping[str, str],
        faults: Sequence[Fault],
    ) -> None:
        self.executors = executors
        self.slots: Slots[SimGate] = Slots(executors.slots_each, conditions.host_cpus, conditions.cold_cpus)
        self.driver: SimDriver[SimGate] = SimDriver(conditions.driver_cpus)
        self._shared = Shared(executors, self.slots, self.driver, conditions.start_s)
        seed, noise = conditions.seed, conditions.noise
        timelines: dict[LoadProfile, Timeline] = {}
        self.gates = tuple(
            SimGate(application, self._shared, _timeline(timelines, application.profile), number, seed, noise)
            for number, application in enumerate(applications)
        )
        self.by_name = {gate.name: gate for gate in self.gates}
        self.groups = dict(groups)
        self.shares: dict[str, float] = {}
        self._weights: dict[str, float] = {}
        self._faults = tuple(faults)
        self._lost = sorted((fault.at_s for fault in faults if isinstance(fault, ExecutorLost)), reverse=True)
        self._divided_for = -1
        self._lanes: list[Lane[SimGate]] = []
        self.look_away()
        self._sort_into_groups()

    @property
    def now_s(self) -> float:
        return self._shared.now_s

    def advance_to(self, time_s: float) -> None:
        """Let simulated time pass."""
        shared = self._shared
        while shared.now_s < time_s - _TICK_S:
            due_s = shared.now_s + _TICK_S
            if self._lost and self._lost[-1] <= due_s:
                self._strike()
            if shared.alarms and shared.alarms[0][0] <= due_s:
                self._ring(due_s)
            self._serve(time_s)

    def set_share(self, group: str, share: float) -> None:
        self.shares[group] = share
        self._sort_into_groups()

    def clear_shares(self) -> None:
        self.shares.clear()
        self._sort_into_groups()

    def knows_group(self, group: str) -> bool:
        return group in self.groups.values() or group in self.by_name

    def look_away(self) -> None:
        """Reset the counters: slot-seconds used and offered, CPU-seconds, seconds of crowded CPUs, and all seconds."""
        self.busy_s = self.offered_s = self.cpu_s = self.crowded_s = self.watched_s = 0.0

    def fault_now(self, kind: type[_Lasting]) -> _Lasting | None:
        for fault in self._faults:
            if isinstance(fault, kind) and fault.from_s <= self.now_s < fault.until_s:
                return fault
        return None

    def follow_executors(self, lost: str | None = None, lost_share: float = 0.0) -> None:
        """Move state off executors that have left."""
        for executor in self.executors.take_departed():
            for gate in self.gates:
                gate.executor_gone(executor, lost_share if executor == lost else 0.0)

    def _serve(self, until_s: float) -> None:
        """Let everything run at its pace until the next event."""
        shared, executors, slots, driver = self._shared, self.executors, self.slots, self.driver
        now_s = shared.now_s
        if self._divided_for != executors.version:
            self._divided_for = executors.version
            slots.forget()
        if slots.changed or driver.changed:
            if slots.changed:
                slots.divide(executors.speeds, executors.cold, self._weights)
            if driver.changed:
                driver.divide()
            self._lanes = [*slots.lanes.values(), *driver.lanes.values()]
        cold_pace = 1 / slots.crowded
        next_s = min(until_s, executors.next_change_s(now_s, cold_pace))
        if shared.alarms:
            next_s = min(next_s, max(now_s, shared.alarms[0][0]))
        if self._lost:
            next_s = min(next_s, max(now_s, self._lost[-1]))
        ending: list[Lane[SimGate]] = []
        for lane in self._lanes:
            end_s = lane.next_end_s(now_s)
            if end_s < next_s:
                next_s, ending = end_s, [lane]
            elif end_s == next_s:
                ending.append(lane)
        seconds = next_s - now_s
        for lane in self._lanes:
            lane.pass_time(seconds)
        self.busy_s += slots.busy * seconds
        self.offered_s += executors.slots * seconds
        self.cpu_s += slots.cpus_used * seconds
        self.crowded_s += seconds if cold_pace < 1 else 0.0
        self.watched_s += seconds
        executors.pass_time(now_s, next_s, cold_pace)
        shared.now_s = next_s
        done = [part for lane in ending for part in lane.take_next()]
        for part in done:
            part.owner.part_done(part)
        if executors.departed:
            self.follow_executors()

    def _ring(self, due_s: float) -> None:
        alarms = self._shared.alarms
        while alarms and alarms[0][0] <= due_s:
            time_s, _, gate = heappop(alarms)
            if gate.wakes_s == time_s:
                gate.wake()
        if self.executors.departed:
            self.follow_executors()

    def _strike(self) -> None:
        while self._lost and self._lost[-1] <= self.now_s + _TICK_S:
            self._lost.pop()
            before = len(self.executors.speeds)
            lost = self.executors.lose()
            if lost is not None:
                self.follow_executors(lost, 1 / before)

    def _sort_into_groups(self) -> None:
        """Serve every application in its class, or by itself if it has its own share.

        Applications without a share divide what the others leave.
        """
        for gate in self.gates:
            own = gate.name if gate.name in self.shares else ""
            gate.serve_in(own or self.groups.get(gate.name, ""))
        self._weights = {}
        self.slots.forget()
        if self.shares:
            present = {gate.group for gate in self.gates}
            unset = [group for group in present if group not in self.shares]
            rest = max(_LEAST_WEIGHT, 1 - sum(self.shares.get(group, 0.0) for group in present))
            self._weights = {group: self.shares.get(group) or rest / len(unset) for group in present}


def _timeline(known: dict[LoadProfile, Timeline], profile: LoadProfile) -> Timeline:
    """Applications with the same load share the table of its arrivals."""
    if profile not in known:
        known[profile] = Timeline(profile)
    return known[profile]
