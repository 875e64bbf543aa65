"""The complete schedule S = (W', H', A): instances per operator, hosts to open, and the assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .arrays import FloatArray, IntArray
from .criteria import cost
from .greedy import BEST_FIT, best_fit_decreasing, fit_in_order, largest_first
from .hostload import excess, flatten
from .problem import Host, InvalidInstance, Problem, Task
from .replan import settle
from .schedule import Schedule, evaluate
from .tidegate import Tidegate


@dataclass(frozen=True, slots=True, eq=False)
class OperatorChoice:
    """An operator with its total demand, the allowed instance counts, and the overhead of each instance.

    `overhead` is the additional demand of every instance (same resources); `traffic` is the total rate to
    other operators.
    """

    name: str
    demand: Mapping[str, float | Sequence[float] | FloatArray]
    instances: tuple[int, ...] = (1,)
    overhead: Mapping[str, float] = field(default_factory=dict)
    traffic: Mapping[str, float] = field(default_factory=dict)
    topology: str = ""

    def __post_init__(self) -> None:
        if not self.instances or min(self.instances) < 1 or len(set(self.instances)) < len(self.instances):
            raise InvalidInstance([f"operator {self.name!r}: instances must be distinct and at least 1"])
        object.__setattr__(self, "instances", tuple(sorted(self.instances)))

    def tasks(self, count: int, counts: Mapping[str, int]) -> list[Task]:
        """`count` instances: demand split evenly, traffic over all pairs of instances."""
        demand = {
            r: np.atleast_1d(np.asarray(v, dtype=np.float64)) / count + self.overhead.get(r, 0.0)
            for r, v in self.demand.items()
        }
        traffic = {
            f"{other}/{k}": rate / (count * counts[other])
            for other, rate in self.traffic.items()
            for k in range(counts[other])
        }
        return [Task(f"{self.name}/{k}", demand, traffic, self.topology, self.name) for k in range(count)]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Instances per operator, the hosts to open, and the schedule on them."""

    instances: Mapping[str, int]
    hosts: tuple[str, ...]
    schedule: Schedule


def configure(
    operators: Sequence[OperatorChoice],
    catalogue: Sequence[Host],
    rng: np.random.Generator,
    distance: Mapping[tuple[str, str], float] | None = None,
    sweeps: int = 3,
) -> Configuration:
    """Choose instance counts, one operator at a time, while overload, cost, hosts or instances fall; then schedule.

    Trial configurations are evaluated by best fit, which is fast; the final schedule is Tidegate's. Hosts are
    opened by cost.

    >>> hosts = [Host("s1", {"cpu": 100}), Host("s2", {"cpu": 100}), Host("big", {"cpu": 300}, cost=5.0)]
    >>> chosen = configure([OperatorChoice("sort", {"cpu": 180}, (1, 2, 3))], hosts, np.random.default_rng(0))
    >>> chosen.instances, chosen.hosts
    ({'sort': 2}, ('s1', 's2'))
    """
    unknown = [
        f"operator {o.name!r}: traffic to unknown operator {to!r}"
        for o in operators
        for to in o.traffic
        if to not in {other.name for other in operators}
    ]
    if unknown:
        raise InvalidInstance(unknown)
    counts = {operator.name: operator.instances[0] for operator in operators}

    def problem_of(trial: Mapping[str, int]) -> Problem:
        tasks = [task for operator in operators for task in operator.tasks(trial[operator.name], trial)]
        return Problem(tuple(catalogue), tuple(tasks), dict(distance or {}))

    best = _worth(problem_of(counts), rng)
    for _ in range(sweeps):
        before = best
        for operator in operators:
            for count in operator.instances:
                trial = {**counts, operator.name: count}
                worth = _worth(problem_of(trial), rng)
                if worth < best:
                    best, counts = worth, trial
        if best == before:
            break
    problem = problem_of(counts)
    schedule = min(
        (evaluate(problem, place(problem, rng)) for place in (Tidegate(), cheapest_first)),
        key=lambda s: (s.overload, s.cost, s.used_hosts),
    )
    names = set(schedule.assignment.values())
    return Configuration(counts, tuple(host.name for host in catalogue if host.name in names), schedule)


def cheapest_first(problem: Problem, rng: np.random.Generator) -> IntArray:
    """Best fit with hosts opened by cost per room; groups are then assigned to the cheapest hosts with enough
    capacity."""
    flat = flatten(problem)
    order = np.argsort(problem.cost / np.maximum(flat.room.mean(axis=1), 1e-300), kind="stable")
    sorted_hosts = Problem(tuple(problem.hosts[h] for h in order), problem.tasks, problem.distance)
    hosts = np.full(len(problem.tasks), -1, dtype=np.int64)
    flat = flatten(sorted_hosts)
    fit_in_order(flat.demand, flat.room, largest_first(flat.demand), hosts, BEST_FIT)
    return settle(problem, order[hosts].astype(np.int64))


def _worth(problem: Problem, rng: np.random.Generator) -> tuple[float, ...]:
    """The sort key of configurations: overload, cost, hosts, then instances (each is a process)."""
    flat = flatten(problem)
    tried = [
        (excess(flat, hosts), cost(problem, hosts), float(np.unique(hosts).size), float(len(problem.tasks)))
        for hosts in (best_fit_decreasing(problem, rng), cheapest_first(problem, rng))
    ]
    return min(tried)
