"""A fleet: hosts in regions, applications with operator replicas on them, and the cost of every change.

The plant is independent of the managers: it places replicas as requested, pauses an operator for each change, starts
hosts after their boot time, and measures. See `fleet_kernel` for the queues and `fleet_loop` for the control loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.adapters.sim.fleet_kernel import FleetArrays, Floats, run
from tidegate.adapters.sim.latency import BINS, Latencies
from tidegate.domain.errors import InvalidInput

STEP_S = 1.0


@dataclass(frozen=True, slots=True)
class FleetOperator:
    """A link of an application's chain. Each replica uses at most one core."""

    name: str
    cost_s_per_row: float
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if not (self.cost_s_per_row > 0 and self.selectivity > 0):
            raise InvalidInput(f"operator {self.name}: cost per row and selectivity must be positive")


@dataclass(frozen=True, slots=True)
class SimFleetApplication:
    """A chain of operators in its home region. `network_s` is the time for results to reach their reader."""

    name: str
    region: str
    objective_s: float
    operators: tuple[FleetOperator, ...]
    network_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.operators or not self.objective_s > 0 or self.network_s < 0:
            raise InvalidInput(f"application {self.name}: needs operators, a positive objective and a network ≥ 0 s")

    @property
    def unloaded_s(self) -> float:
        """The service time of a row along the chain."""
        return sum(operator.cost_s_per_row for operator in self.operators)


@dataclass(frozen=True, slots=True)
class HostKind:
    """Cores are shared by demand. Slots limit the number of replicas on a host, busy or idle."""

    cores: float = 4.0
    slots: int = 10
    boot_s: float = 90.0

    def __post_init__(self) -> None:
        if not (self.cores > 0 and self.slots >= 1 and self.boot_s >= 0):
            raise InvalidInput("a host needs cores, slots and a boot time of 0 or more seconds")


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """The whole fleet and the cost of changes."""

    applications: tuple[SimFleetApplication, ...]
    host: HostKind = field(default_factory=HostKind)
    places_per_region: int = 32
    """Maximum number of machines, regardless of the budget."""
    pause_s: float = 6.0
    """How long an operator pauses when its replicas change in number or place. Its rows queue."""

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(application.region for application in self.applications))

    def operator_names(self) -> tuple[str, ...]:
        return tuple(f"{app.name}.{operator.name}" for app in self.applications for operator in app.operators)


@dataclass(frozen=True, slots=True)
class FleetWindow:
    """What was measured since the last observation. Operators, hosts and applications are by position."""

    seconds: float
    arrival_rows_per_s: Floats
    utilisation: Floats
    response_s: Floats
    """95th percentile over the window's seconds."""
    latency_s: Floats
    """Worst row of each application; −1 if none left."""
    busy_cores: float
    source_rows_per_s: float
    """Rate into the fleet, all applications together."""


@dataclass(frozen=True, slots=True)
class FleetTotals:
    """A run as a whole."""

    utilisation: float
    latencies: Latencies
    violation_rate: float
    violation_rates: dict[str, float]
    host_hours: float
    replica_hours: float
    reconfigurations: int
    downtime_s: float
    most_hosts: int


class FleetPlant:
    """The simulated fleet. `arrivals`: application × second, rows."""

    def __init__(self, spec: FleetSpec, arrivals: Floats) -> None:
        if arrivals.shape[0] != len(spec.applications):
            raise InvalidInput(f"{arrivals.shape[0]} loads for {len(spec.applications)} applications")
        self.spec, self.time_s = spec, 0
        self._arrivals = np.ascontiguousarray(arrivals, dtype=np.float64)
        self.operators = spec.operator_names()
        self._index = {name: o for o, name in enumerate(self.operators)}
        self.host_names = tuple(f"{r}-{i}" for r in spec.regions for i in range(spec.places_per_region))
        self._host_index = {name: h for h, name in enumerate(self.host_names)}
        self._region_of = {name: name.rpartition("-")[0] for name in self.host_names}
        self.seats: dict[str, dict[str, int]] = {name: {} for name in self.operators}
        self.ready_s: dict[str, float] = {}
        """Every host that is paid for, and when it is up."""
        self.reconfigurations: dict[str, int] = dict.fromkeys(self.operators, 0)
        self.changed_s: dict[str, float] = {}
        self.downtime_s = self._host_seconds = self._replica_seconds = 0.0
        self._most_hosts = 0
        self._a = _arrays(spec, len(self.host_names))
        self._window_s = 0

    # Commands

    def have_hosts(self, region: str, target: int) -> list[str]:
        """Start hosts until the region has `target`. Returns the started ones."""
        started = []
        for name in self.host_names:
            if self._region_of[name] != region or name in self.ready_s or len(self.hosts_of(region)) >= target:
                continue
            self.ready_s[name] = self.time_s + (self.spec.host.boot_s if self.time_s > 0 else 0.0)
            started.append(name)
        return started

    def stop_host(self, name: str) -> None:
        """Stop a host. It must be empty."""
        if any(name in hosts for hosts in self.seats.values()):
            raise InvalidInput(f"host {name} still runs replicas: move them first")
        self.ready_s.pop(name, None)

    def seat(self, operator: str, hosts: Mapping[str, int]) -> None:
        """Run the operator's replicas on these hosts. A change pauses it; the same placement again does nothing."""
        wanted = {host: n for host, n in hosts.items() if n > 0}
        if wanted == self.seats[operator]:
            return
        for host in wanted:
            if not self.is_up(host):
                raise InvalidInput(f"{operator}: host {host} is not up")
        o = self._index[operator]
        if self.time_s > 0:
            until = self.time_s + int(self.spec.pause_s)
            self.downtime_s += until - max(self.time_s, int(self._a.paused_until[o]))
            self._a.paused_until[o] = until
            self.reconfigurations[operator] += 1
            self.changed_s[operator] = float(self.time_s)
        self.seats[operator] = wanted
        self._a.replicas[o] = sum(wanted.values())
        self._write_seats()

    def _write_seats(self) -> None:
        at = 0
        for o, name in enumerate(self.operators):
            self._a.seat_first[o] = at
            for host, n in self.seats[name].items():
                self._a.seat_host[at], self._a.seat_count[at] = self._host_index[host], n
                at += 1
        self._a.seat_first[len(self.operators)] = at

    # Time and measures

    def is_up(self, host: str) -> bool:
        return host in self.ready_s and self.ready_s[host] <= self.time_s

    def hosts_of(self, region: str) -> list[str]:
        """Hosts that are up or booting, in the order of their names."""
        return [name for name in self.host_names if name in self.ready_s and self._region_of[name] == region]

    def replicas_of(self, operator: str) -> int:
        return int(self._a.replicas[self._index[operator]])

    def advance(self, seconds: int) -> FleetWindow:
        """Advance time, and measure."""
        a, steps = self._a, min(seconds, self._arrivals.shape[1] - self.time_s)
        busy_before = float(a.busy.sum())
        for array in (a.arrived, a.asked, a.counted):
            array[:] = 0.0
        response_s = np.zeros((len(self.operators), steps))
        latency_s = np.full((len(self.spec.applications), steps), -1.0)
        run(a, self._arrivals, self.time_s, steps, response_s, latency_s)
        self.time_s += steps
        self._host_seconds += steps * len(self.ready_s)
        self._replica_seconds += steps * float(a.replicas.sum())
        self._most_hosts = max(self._most_hosts, len(self.ready_s))
        at = max(0, -(-95 * steps // 100) - 1)
        return FleetWindow(
            float(steps),
            a.arrived / steps,
            a.asked / np.maximum(1.0, a.counted),
            np.partition(response_s, at, axis=1)[:, at],
            latency_s.max(axis=1),
            (float(a.busy.sum()) - busy_before) / steps,
            float(a.arrived[a.first[:-1]].sum()) / steps,
        )

    def totals(self) -> FleetTotals:
        """Rows still inside count as over the objective once they are older than it."""
        a, late, done = self._a, self._a.late.copy(), self._a.done.copy()
        for app in range(len(self.spec.applications)):
            inside = self._arrivals[app, int(a.oldest[app]) : self.time_s].copy()
            if len(inside):
                inside[0] -= a.gone[app]
                ages_s = self.time_s - np.arange(int(a.oldest[app]), self.time_s)
                late[app] += inside[ages_s > a.objective_s[app]].sum()
                done[app] += inside.sum()
        rates = late / np.maximum(done, 1e-300)
        paid_core_s = self._host_seconds * self.spec.host.cores
        longest = np.flatnonzero(a.histogram.sum(axis=0))
        total, sums = a.histogram.sum(axis=0), a.latency_sum_s.sum(axis=0)
        return FleetTotals(
            utilisation=float(a.busy.sum()) / paid_core_s if paid_core_s else 0.0,
            latencies=Latencies(total, sums, float(sums[longest[-1]] / total[longest[-1]]) if len(longest) else None),
            violation_rate=float(late.sum() / max(done.sum(), 1e-300)),
            violation_rates={app.name: float(rate) for app, rate in zip(self.spec.applications, rates, strict=True)},
            host_hours=self._host_seconds / 3600.0,
            replica_hours=self._replica_seconds / 3600.0,
            reconfigurations=sum(self.reconfigurations.values()),
            downtime_s=self.downtime_s,
            most_hosts=self._most_hosts,
        )


def _arrays(spec: FleetSpec, hosts: int) -> FleetArrays:
    chain = [operator for application in spec.applications for operator in application.operators]
    apps, operators = len(spec.applications), len(chain)
    seats = operators * hosts
    first = np.cumsum([0, *(len(application.operators) for application in spec.applications)])
    return FleetArrays(
        first=first.astype(np.int64),
        cost_s=np.array([operator.cost_s_per_row for operator in chain]),
        selectivity=np.array([operator.selectivity for operator in chain]),
        base_s=np.array([application.unloaded_s + application.network_s for application in spec.applications]),
        objective_s=np.array([application.objective_s for application in spec.applications]),
        cores=np.full(hosts, spec.host.cores),
        seat_first=np.zeros(operators + 1, dtype=np.int64),
        seat_host=np.zeros(seats, dtype=np.int64),
        seat_count=np.zeros(seats, dtype=np.int64),
        replicas=np.zeros(operators, dtype=np.int64),
        queue=np.zeros(operators),
        inflow=np.zeros(operators),
        paused_until=np.zeros(operators, dtype=np.int64),
        oldest=np.zeros(apps, dtype=np.int64),
        gone=np.zeros(apps),
        arrived=np.zeros(operators),
        asked=np.zeros(operators),
        counted=np.zeros(operators),
        histogram=np.zeros((apps, BINS)),
        latency_sum_s=np.zeros((apps, BINS)),
        late=np.zeros(apps),
        done=np.zeros(apps),
        busy=np.zeros(operators),
    )


def spread(
    spec: FleetSpec, replicas: Mapping[str, int], hosts: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, int]]:
    """Initial placement: the heaviest replicas first, each on the least loaded host of its region.

    A replica weighs its part of the cost of a row, because all operators of a region see the same rows.
    """
    weight = {
        (app.region, f"{app.name}.{operator.name}"): operator.cost_s_per_row / replicas[f"{app.name}.{operator.name}"]
        for app in spec.applications
        for operator in app.operators
    }
    load = {name: 0.0 for names in hosts.values() for name in names}
    taken = dict.fromkeys(load, 0)
    seats: dict[str, dict[str, int]] = {name: {} for _, name in weight}
    for region, name in sorted(weight, key=lambda key: (-weight[key], key)):
        for _ in range(replicas[name]):
            free = [host for host in hosts[region] if taken[host] < spec.host.slots]
            if not free:
                raise InvalidInput(f"{region}: no slot left for {name}; start more hosts")
            host = min(free, key=lambda h: (load[h], h))
            load[host] += weight[region, name]
            taken[host] += 1
            seats[name][host] = seats[name].get(host, 0) + 1
    return seats
