"""Many applications in service classes on a few hosts, whose CPU is divided anew in every step of the plant.

The queues are the plant's: every application is a task, what its host gives it is the task's cap. Within a control
interval a host divides what it has by the policy's weights, without leaving any idle while somebody waits (as cgroups
do), or in proportion to what waits where there are none: rows then are served in turn in the order in which they came,
which is what an engine does that knows no classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from tidegate.domain.errors import InvalidInput
from tidegate.sim.latency import Latencies
from tidegate.sim.plant import CPU, Link, Plant, Task
from tidegate.sim.state import Floats, Ints

_ROUNDS = 12
"""Passes of water-filling: every one of them settles at least one application, most of them nearly all."""


@dataclass(frozen=True, slots=True)
class Tenants:
    """The applications: where each runs, its class, what a row costs it, and how many CPUs it can use at once."""

    host: Ints
    group: Ints
    row_s: Floats
    parallelism: Floats

    def __post_init__(self) -> None:
        if not len(self.host) == len(self.group) == len(self.row_s) == len(self.parallelism):
            raise InvalidInput("hosts, groups, costs and parallelism are one for each application")
        if not len(self.host) or (self.row_s <= 0).any() or (self.parallelism <= 0).any():
            raise InvalidInput("at least one application is needed, with costs and parallelism above 0")


@dataclass(frozen=True, slots=True)
class View:
    """What can be measured at the start of a control interval."""

    time_s: float
    arrived_rows: Floats
    """In the last interval."""
    queued_rows: Floats
    row_s: Floats
    """CPU-seconds a row costs."""


@dataclass(frozen=True, slots=True)
class Division:
    """How the hosts are divided until the next interval."""

    weights: Floats | None
    """By application; None: in proportion to what waits."""
    caps: Floats | None = None
    """CPUs that each application may use at most, be the host idle or not."""
    cpus: Floats | None = None
    """By host, where less than all of it may be used."""


class SharingPolicy(Protocol):
    """Divides the hosts once in a control interval."""

    def divide(self, view: View) -> Division: ...


class RoundRobin:
    """Rows in turn, whoever they belong to."""

    def divide(self, view: View) -> Division:
        return Division(weights=None)


class WeightedFair:
    """Weighted fair sharing: who waits gets CPU in proportion to its weight, and nobody more than it can use."""

    def __init__(self, weights: Floats) -> None:
        self._division = Division(weights)

    def divide(self, view: View) -> Division:
        return self._division


@dataclass(frozen=True, slots=True)
class Interval:
    """One control interval of a run, by class."""

    time_s: float
    latencies: tuple[Latencies, ...]
    """Of the rows that left in it."""
    arrived_rows: Floats
    queued_rows: Floats
    cpus: Floats
    """CPUs used by each class."""


class SharedHosts:
    """A closed loop: arrivals in, a policy that divides the hosts once an interval, latencies out.

    >>> tenants = Tenants(np.array([0, 0]), np.array([0, 1]), np.array([0.01, 0.01]), np.array([1.0, 1.0]))
    >>> hosts = SharedHosts(tenants, hosts=1, cpus=1.0, seed=1)
    >>> run = hosts.run(lambda time_s: np.array([20.0, 200.0]), WeightedFair(np.array([6.0, 1.0])), until_s=20)
    >>> [float(rows) for rows in run[-1].queued_rows.round(-3)]  # the heavy class does not wait
    [0.0, 2000.0]
    """

    def __init__(
        self,
        tenants: Tenants,
        hosts: int,
        cpus: float,
        *,
        step_s: float = 0.02,
        interval_s: float = 1.0,
        seed: int = 0,
    ) -> None:
        if hosts < 1 or cpus <= 0 or not 0 < step_s <= interval_s:
            raise InvalidInput("hosts and CPUs are above 0, and a step is no longer than an interval")
        if tenants.host.min() < 0 or tenants.host.max() >= hosts:
            raise InvalidInput(f"applications run on the hosts 0 to {hosts - 1}")
        self.tenants, self.hosts, self.cpus = tenants, hosts, cpus
        self.groups = int(tenants.group.max()) + 1
        self.step_s, self.interval_s = step_s, interval_s
        self._random = np.random.default_rng(seed)
        self._order, self._first = _by_host(tenants.host, hosts)
        tasks = [
            Task(str(index), int(group), cost=(float(cost),))
            for index, (group, cost) in enumerate(zip(tenants.group, tenants.row_s, strict=True))
        ]
        self.plant = Plant(tasks, [Link(child=index) for index in range(len(tasks))], [[cpus]] * hosts)
        for index, host in enumerate(tenants.host):
            self.plant.start(index)
            self.plant.place(index, int(host))

    def run(self, rates: Callable[[float], Floats], policy: SharingPolicy, until_s: float) -> list[Interval]:
        """Interval by interval: `rates(t)` gives rows per second of every application, arriving at random (Poisson)."""
        plant, steps = self.plant, round(self.interval_s / self.step_s)
        arrived = np.zeros(len(self.tenants.host))
        record: list[Interval] = []
        while plant.now_s < until_s - self.step_s / 2:
            time_s, before = plant.now_s, plant.state.latency.copy()
            done_before = plant.processed()
            division = policy.divide(View(time_s, arrived, plant.queued(), self.tenants.row_s))
            rows = self._random.poisson(rates(time_s) * self.step_s, (steps, len(arrived))).astype(np.float64)
            self._advance(rows, division)
            arrived = rows.sum(axis=0)
            used = (plant.processed() - done_before) * self.tenants.row_s / self.interval_s
            record.append(self._interval(time_s, before, arrived, used))
        return record

    def _advance(self, rows: Floats, division: Division) -> None:
        state = self.plant.state
        cpus = np.full(self.hosts, self.cpus) if division.cpus is None else np.minimum(division.cpus, self.cpus)
        state.capacity[:, CPU] = cpus
        most = (
            self.tenants.parallelism if division.caps is None else np.minimum(division.caps, self.tenants.parallelism)
        )
        if division.weights is None:
            state.cap[:] = most
            self.plant.advance(rows, self.step_s)
            return
        weights = np.ascontiguousarray(division.weights, dtype=np.float64)
        for step in range(len(rows)):
            _fill(
                state.ripe_rows, rows[step], self.tenants.row_s, most, weights, cpus,
                self._order, self._first, self.step_s, state.cap,
            )  # fmt: skip
            self.plant.advance(rows[step : step + 1], self.step_s)

    def _interval(self, time_s: float, before: Floats, arrived: Floats, used: Floats) -> Interval:
        gained = self.plant.state.latency - before
        group, groups = self.tenants.group, self.groups
        return Interval(
            time_s=time_s,
            latencies=tuple(Latencies(gained[g, :, 0], gained[g, :, 1]) for g in range(groups)),
            arrived_rows=np.bincount(group, arrived, groups).astype(np.float64),
            queued_rows=np.bincount(group, self.plant.queued(), groups).astype(np.float64),
            cpus=np.bincount(group, used, groups).astype(np.float64),
        )


def _by_host(host: Ints, hosts: int) -> tuple[Ints, Ints]:
    order = np.argsort(host, kind="stable").astype(np.int64)
    return order, np.searchsorted(host[order], np.arange(hosts + 1)).astype(np.int64)


@njit(cache=True, error_model="numpy")
def _fill(
    queued: Floats,
    fresh: Floats,
    row_s: Floats,
    parallelism: Floats,
    weights: Floats,
    cpus: Floats,
    order: Ints,
    first: Ints,
    step_s: float,
    cap: Floats,
) -> None:
    """Weighted max–min sharing (generalised processor sharing) of every host: `r = min(demand, w·u)`, `Σ r = cpus`."""
    for host in range(cpus.shape[0]):
        left, weight, wanted = cpus[host], 0.0, 0.0
        for position in range(first[host], first[host + 1]):
            a = order[position]
            demand = min((queued[a] + fresh[a]) * row_s[a] / step_s, parallelism[a])
            cap[a] = -demand  # below 0: not settled yet
            wanted += demand
            weight += weights[a] if demand > 0.0 else 0.0
        if wanted <= left:
            for position in range(first[host], first[host + 1]):
                cap[order[position]] = parallelism[order[position]]
            continue
        for _ in range(_ROUNDS):
            level = left / weight if weight > 0.0 else 0.0
            settled = False
            for position in range(first[host], first[host + 1]):
                a = order[position]
                if cap[a] < 0.0 and -cap[a] <= weights[a] * level:
                    cap[a] = -cap[a]
                    left -= cap[a]
                    weight -= weights[a]
                    settled = True
            if not settled:
                break
        level = max(left, 0.0) / weight if weight > 0.0 else 0.0
        for position in range(first[host], first[host + 1]):
            a = order[position]
            if cap[a] < 0.0:
                cap[a] = min(-cap[a], weights[a] * level)
