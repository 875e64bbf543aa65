"""The assignment problem: hosts with resources, tasks with demand over time, traffic, distances, what runs now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .arrays import FloatArray, IntArray

SAME_HOST, SAME_REGION, OTHER_REGION = 0.0, 0.5, 1.0  # R-Storm's network distances (Peng et al. 2015)
UNPLACED = -1


class InvalidInstance(ValueError):
    """All faults of a placement problem."""

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = list(messages)
        super().__init__("; ".join(self.messages))

    def __reduce__(self) -> tuple[type[InvalidInstance], tuple[list[str]]]:
        return InvalidInstance, (self.messages,)


def number_fault(value: object) -> str | None:
    """Return why `value` cannot be an amount, or None if it can."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return f"must be a number, not {value!r}"
    if not math.isfinite(value):
        return f"must be finite, not {value!r}"
    return f"must not be negative, but is {value!r}" if value < 0 else None


def _series(values: float | Sequence[float] | FloatArray, what: str, faults: list[str]) -> FloatArray:
    """`values` as a read-only series (a number is a constant); faults are collected, not raised."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu" and values.ndim == 1:
        array = np.array(values, dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(array) | (array < 0))
        listed: list[tuple[int, object]] = [(int(at), float(array[at])) for at in bad[:1]]
    else:
        many = isinstance(values, list | tuple)
        items: list[object] = list(values) if many else [values]  # type: ignore[arg-type]
        listed = [(at, item) for at, item in enumerate(items) if number_fault(item)][:1]
        array = np.array([0.0] if listed else items, dtype=np.float64)
    if listed:
        at, item = listed[0]
        faults.append(f"{what}{f' at step {at}' if at else ''} {number_fault(item)}")
    elif array.size == 0:
        faults.append(f"{what} has no values")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True)
class Host:
    """A machine that can run tasks: capacity per resource, its region, and what it costs per unit of time."""

    name: str
    capacity: Mapping[str, float]
    region: str = "local"
    cost: float = 1.0

    def __post_init__(self) -> None:
        faults = [f"host {self.name!r}: {r} {why}" for r, v in self.capacity.items() if (why := number_fault(v))]
        if not self.name:
            faults.append("a host has no name")
        if not self.capacity:
            faults.append(f"host {self.name!r}: no resource given, e.g. cpu")
        if why := number_fault(self.cost):
            faults.append(f"host {self.name!r}: cost {why}")
        if faults:
            raise InvalidInstance(faults)
        object.__setattr__(self, "capacity", {r: float(v) for r, v in self.capacity.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One operator instance: demand per resource over time (a number is constant), and rates sent to other tasks.

    `topology` is the application it belongs to, `component` its operator (by default the task itself).
    """

    name: str
    demand: Mapping[str, float | Sequence[float] | FloatArray]
    traffic: Mapping[str, float] = field(default_factory=dict)
    topology: str = ""
    component: str = ""

    def __post_init__(self) -> None:
        faults: list[str] = [] if self.name else ["a task has no name"]
        demand = {r: _series(v, f"task {self.name!r}: {r}", faults) for r, v in self.demand.items()}
        for other, rate in self.traffic.items():
            if why := number_fault(rate):
                faults.append(f"task {self.name!r}: traffic to {other!r} {why}")
        lengths = {series.size for series in demand.values() if series.size > 1}
        if len(lengths) > 1:
            faults.append(f"task {self.name!r}: series of different length {sorted(lengths)}")
        if faults:
            raise InvalidInstance(faults)
        object.__setattr__(self, "demand", demand)
        object.__setattr__(self, "component", self.component or self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Hosts, tasks and what constrains their pairing; arrays are derived once and read-only.

    `distance` is between regions, symmetric; `current` maps running tasks to their hosts; `max_migrations`
    caps how many of them a new schedule may move (tasks that do not run yet are free).

    >>> tasks = (Task("x", {"cpu": [100, 300]}), Task("y", {"cpu": 50}))
    >>> problem = Problem((Host("a", {"cpu": 500}),), tasks)
    >>> problem.demand.shape, problem.resources
    ((2, 1, 2), ('cpu',))
    """

    hosts: tuple[Host, ...]
    tasks: tuple[Task, ...]
    distance: Mapping[tuple[str, str], float] = field(default_factory=dict)
    current: Mapping[str, str] = field(default_factory=dict)
    max_migrations: int | None = None
    resources: tuple[str, ...] = field(init=False)
    demand: FloatArray = field(init=False, repr=False)  # tasks × resources × time
    capacity: FloatArray = field(init=False, repr=False)  # hosts × resources
    cost: FloatArray = field(init=False, repr=False)  # per host
    separation: FloatArray = field(init=False, repr=False)  # hosts' regions × regions
    region: IntArray = field(init=False, repr=False)  # per host, index into separation
    senders: IntArray = field(init=False, repr=False)  # one entry per traffic edge
    receivers: IntArray = field(init=False, repr=False)
    rates: FloatArray = field(init=False, repr=False)
    placed: IntArray = field(init=False, repr=False)  # current host per task, or UNPLACED

    def __post_init__(self) -> None:
        faults = _cross_faults(self)
        if faults:
            raise InvalidInstance(faults)
        resources = tuple(dict.fromkeys(r for host in self.hosts for r in host.capacity))
        steps = max((s.size for t in self.tasks for s in _series_of(t).values()), default=1)
        demand = np.zeros((len(self.tasks), len(resources), steps))
        for i, task in enumerate(self.tasks):
            for r, series in _series_of(task).items():
                demand[i, resources.index(r)] = series
        regions = list(dict.fromkeys(host.region for host in self.hosts))
        separation = np.full((len(regions), len(regions)), OTHER_REGION)
        np.fill_diagonal(separation, SAME_REGION)
        for (one, other), d in self.distance.items():
            if one in regions and other in regions:
                separation[regions.index(one), regions.index(other)] = d
                separation[regions.index(other), regions.index(one)] = d
        task_at = {task.name: i for i, task in enumerate(self.tasks)}
        host_at = {host.name: h for h, host in enumerate(self.hosts)}
        edges = [(i, task_at[to], rate) for i, t in enumerate(self.tasks) for to, rate in t.traffic.items()]
        derived = {
            "resources": resources,
            "demand": demand,
            "capacity": np.array([[host.capacity.get(r, 0.0) for r in resources] for host in self.hosts]),
            "cost": np.array([float(host.cost) for host in self.hosts]),
            "separation": separation,
            "region": np.array([regions.index(host.region) for host in self.hosts], dtype=np.int64),
            "senders": np.array([e[0] for e in edges], dtype=np.int64),
            "receivers": np.array([e[1] for e in edges], dtype=np.int64),
            "rates": np.array([float(e[2]) for e in edges], dtype=np.float64),
            "placed": np.array(
                [host_at[self.current[t.name]] if t.name in self.current else UNPLACED for t in self.tasks],
                dtype=np.int64,
            ),
        }
        for name, value in derived.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def from_arrays(cls, demand: FloatArray, capacity: FloatArray, resources: Sequence[str] = ()) -> Problem:
        """Tasks t0, t1, … from `demand` (tasks × resources × time) on hosts h0, h1, … from `capacity`."""
        names = tuple(resources) or ("cpu", *(f"resource{r}" for r in range(1, demand.shape[1])))
        hosts = tuple(Host(f"h{h}", dict(zip(names, map(float, row), strict=True))) for h, row in enumerate(capacity))
        tasks = tuple(Task(f"t{i}", dict(zip(names, rows, strict=True))) for i, rows in enumerate(demand))
        return cls(hosts, tasks)

    def unplaceable(self) -> list[str]:
        """Tasks whose peak demand exceeds every host, even an empty one."""
        peaks = self.demand.max(axis=2)
        room = self.capacity * (1 + 1e-9) + 1e-12
        fits = np.zeros(len(self.tasks), dtype=np.bool_)
        for kind in np.unique(room, axis=0):
            fits |= (peaks <= kind).all(axis=1)
        return [self.tasks[i].name for i in np.flatnonzero(~fits)]


def _series_of(task: Task) -> Mapping[str, FloatArray]:
    return task.demand  # type: ignore[return-value]  # normalised to arrays when the task was built


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]


def _cross_faults(problem: Problem) -> list[str]:
    """Faults between the parts: each part alone was checked when it was built."""
    hosts, tasks = {host.name for host in problem.hosts}, {task.name for task in problem.tasks}
    offered = {r for host in problem.hosts for r in host.capacity}
    faults = [] if problem.hosts else ["there are no hosts"]
    faults += [] if problem.tasks else ["there are no tasks"]
    faults += [f"two hosts are named {name!r}" for name in _repeated(host.name for host in problem.hosts)]
    faults += [f"two tasks are named {name!r}" for name in _repeated(task.name for task in problem.tasks)]
    for task in problem.tasks:
        faults += [f"task {task.name!r}: no host offers {r}" for r in task.demand if r not in offered]
        faults += [f"task {task.name!r}: traffic to unknown task {o!r}" for o in task.traffic if o not in tasks]
    lengths = {s.size for task in problem.tasks for s in _series_of(task).values() if s.size > 1}
    if len(lengths) > 1:
        faults.append(f"series of different length {sorted(lengths)}: every series must cover the same steps")
    for (one, other), d in problem.distance.items():
        if why := number_fault(d):
            faults.append(f"network distance {one!r} to {other!r} {why}")
    faults += [f"current: unknown task {t!r}" for t in problem.current if t not in tasks]
    faults += [f"current: task {t!r} on unknown host {h!r}" for t, h in problem.current.items() if h not in hosts]
    if problem.max_migrations is not None and problem.max_migrations < 0:
        faults.append(f"max_migrations must not be negative, but is {problem.max_migrations}")
    return faults
