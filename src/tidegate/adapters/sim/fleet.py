"""A fleet: hosts in regions, one application on one host, operators with tasks, and the cost of every change.

The plant is independent of its controllers: it restarts an application when its tasks or its host change, starts hosts
after their boot time, and measures. See `fleet_kernel` for the queues and `fleet_worlds` for the adapters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tidegate.adapters.sim.fleet_kernel import FleetArrays, Floats, run
from tidegate.adapters.sim.latencybins import BINS, Latencies
from tidegate.domain.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class FleetOperator:
    """A link of an application's chain. Each task uses at most one core."""

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
    """A slot is a core. The applications of a host share its cores by demand."""

    slots: int = 8
    boot_s: float = 90.0

    def __post_init__(self) -> None:
        if not (self.slots >= 1 and self.boot_s >= 0):
            raise InvalidInput("a host needs slots and a boot time of 0 or more seconds")


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """The whole fleet and the cost of changes."""

    applications: tuple[SimFleetApplication, ...]
    host: HostKind = field(default_factory=HostKind)
    most_hosts: int = 128
    """Maximum number of hosts ever started and not yet forgotten, regardless of the budget."""
    pause_s: float = 6.0
    """How long an application stops when its tasks or its host change. Its rows queue."""
    task_cores: float = 0.02
    """Cores that a task takes besides its rows: it is launched, and commits its state, in every batch."""

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(application.region for application in self.applications))

    @property
    def operators(self) -> tuple[tuple[str, str], ...]:
        return tuple((app.name, operator.name) for app in self.applications for operator in app.operators)


@dataclass(frozen=True, slots=True)
class FleetWindow:
    """What was measured since the last window. Operators and applications are by position."""

    start_s: int
    seconds: int
    served_rows: Floats
    """Per operator."""
    latency_s: Floats
    """application × second: the worst row; −1 if none left."""
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
    task_hours: float
    reconfigurations: int
    moves: int
    downtime_s: float
    most_hosts: int


@dataclass(slots=True)
class SimHost:
    """A host that is paid for."""

    region: str
    place: int
    ready_s: float


class FleetPlant:
    """The simulated fleet. `arrivals`: application × second, rows."""

    def __init__(self, spec: FleetSpec, arrivals: Floats) -> None:
        if arrivals.shape[0] != len(spec.applications):
            raise InvalidInput(f"{arrivals.shape[0]} loads for {len(spec.applications)} applications")
        self.spec, self.time_s = spec, 0
        self._arrivals = np.ascontiguousarray(arrivals, dtype=np.float64)
        self._arrived = np.cumsum(self._arrivals, axis=1)
        self.index = {app.name: number for number, app in enumerate(spec.applications)}
        self.position = {key: number for number, key in enumerate(spec.operators)}
        self.hosts: dict[str, SimHost] = {}
        self.host_of: dict[str, str] = {}
        self.reconfigurations = self.moves = 0
        self.rescaled = 0
        """Operators whose tasks changed; several may share a restart."""
        self.downtime_s = self._host_seconds = self._task_seconds = 0.0
        self._most_hosts = 0
        self._a = _arrays(spec)
        self._window_s = 0
        self._latency_s: list[Floats] = []

    # Commands

    def add_host(self, name: str, region: str) -> None:
        taken = {host.place for host in self.hosts.values()}
        place = next((place for place in range(self.spec.most_hosts) if place not in taken), None)
        if place is None:
            raise InvalidInput(f"host {name}: there are {self.spec.most_hosts} machines, and all are in use")
        boot_s = self.spec.host.boot_s if self.time_s > 0 else 0.0
        self.hosts[name] = SimHost(region, place, self.time_s + boot_s)

    def remove_host(self, name: str) -> None:
        """Stop a host. It must be empty."""
        if name in self.host_of.values():
            raise InvalidInput(f"host {name} still runs applications: move them first")
        self.hosts.pop(name, None)

    def change(self, application: str, host: str, tasks: Mapping[str, int]) -> None:
        """Run the application on this host with these tasks. A change restarts it; the same again does nothing."""
        now = self.tasks_of(application)
        moved = self.host_of.get(application) != host
        changed = [operator for operator, count in tasks.items() if now[operator] != count]
        if not moved and not changed:
            return
        if not self.is_ready(host):
            raise InvalidInput(f"{application}: host {host} is not ready")
        app = self.index[application]
        if application in self.host_of:
            until = self.time_s + int(self.spec.pause_s)
            self.downtime_s += until - max(self.time_s, int(self._a.paused_until[app]))
            self._a.paused_until[app] = until
            self.reconfigurations += 1
            self.rescaled += len(changed)
            self.moves += moved
        self.host_of[application] = host
        self._a.host[app] = self.hosts[host].place
        for operator in changed:
            self._a.tasks[self.position[application, operator]] = tasks[operator]

    # Time and measures

    def is_ready(self, host: str) -> bool:
        return host in self.hosts and self.hosts[host].ready_s <= self.time_s

    def tasks_of(self, application: str) -> dict[str, int]:
        app = self.spec.applications[self.index[application]]
        return {one.name: int(self._a.tasks[self.position[application, one.name]]) for one in app.operators}

    def tasks(self) -> list[int]:
        """By the position of the operator."""
        return [int(count) for count in self._a.tasks]

    def arrived_rows(self, application: str) -> float:
        """Rows that have arrived at its source so far."""
        return float(self._arrived[self.index[application], self.time_s - 1]) if self.time_s else 0.0

    def waiting_rows(self, application: str) -> float:
        app = self.index[application]
        return float(self._a.queue[int(self._a.first[app]) : int(self._a.first[app + 1])].sum())

    def advance(self, seconds: int) -> None:
        a, steps = self._a, min(seconds, self._arrivals.shape[1] - self.time_s)
        latency_s = np.full((len(self.spec.applications), steps), -1.0)
        run(a, self._arrivals, self.time_s, steps, latency_s)
        self.time_s += steps
        self._latency_s.append(latency_s)
        self._host_seconds += steps * len(self.hosts)
        self._task_seconds += steps * float(a.tasks.sum())
        self._most_hosts = max(self._most_hosts, len(self.hosts))

    def window(self) -> FleetWindow:
        """What was measured since the last call."""
        start_s, self._window_s = self._window_s, self.time_s
        seconds = self.time_s - start_s
        served, latency_s = self._a.served.copy(), np.concatenate(self._latency_s, axis=1)
        self._a.served[:] = 0.0
        self._latency_s = []
        rows = float(self._arrivals[:, start_s : self.time_s].sum())
        return FleetWindow(start_s, seconds, served, latency_s, rows / max(1, seconds))

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
        paid_core_s = self._host_seconds * self.spec.host.slots
        longest = np.flatnonzero(a.histogram.sum(axis=0))
        total, sums = a.histogram.sum(axis=0), a.latency_sum_s.sum(axis=0)
        return FleetTotals(
            utilisation=float(a.busy.sum()) / paid_core_s if paid_core_s else 0.0,
            latencies=Latencies(total, sums, float(sums[longest[-1]] / total[longest[-1]]) if len(longest) else None),
            violation_rate=float(late.sum() / max(done.sum(), 1e-300)),
            violation_rates={app.name: float(rate) for app, rate in zip(self.spec.applications, rates, strict=True)},
            host_hours=self._host_seconds / 3600.0,
            task_hours=self._task_seconds / 3600.0,
            reconfigurations=self.reconfigurations,
            moves=self.moves,
            downtime_s=self.downtime_s,
            most_hosts=self._most_hosts,
        )


def _arrays(spec: FleetSpec) -> FleetArrays:
    chain = [operator for application in spec.applications for operator in application.operators]
    apps, operators = len(spec.applications), len(chain)
    first = np.cumsum([0, *(len(application.operators) for application in spec.applications)])
    return FleetArrays(
        first=first.astype(np.int64),
        cost_s=np.array([operator.cost_s_per_row for operator in chain]),
        selectivity=np.array([operator.selectivity for operator in chain]),
        base_s=np.array([application.unloaded_s + application.network_s for application in spec.applications]),
        objective_s=np.array([application.objective_s for application in spec.applications]),
        task_cores=float(spec.task_cores),
        host=np.zeros(apps, dtype=np.int64),
        cores=np.full(spec.most_hosts, float(spec.host.slots)),
        tasks=np.zeros(operators, dtype=np.int64),
        queue=np.zeros(operators),
        inflow=np.zeros(operators),
        paused_until=np.zeros(apps, dtype=np.int64),
        oldest=np.zeros(apps, dtype=np.int64),
        gone=np.zeros(apps),
        served=np.zeros(operators),
        histogram=np.zeros((apps, BINS)),
        latency_sum_s=np.zeros((apps, BINS)),
        late=np.zeros(apps),
        done=np.zeros(apps),
        busy=np.zeros(operators),
    )
