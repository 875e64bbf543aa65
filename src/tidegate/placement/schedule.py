"""A schedule: where every task runs, and its quality by the measures of the paper (equations 14 to 16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import FloatArray, IntArray
from .bounds import lower_bound
from .hostload import TOLERANCE, loads
from .problem import SAME_HOST, UNPLACED, Problem


@dataclass(frozen=True, slots=True)
class Schedule:
    """An assignment and its measures.

    `lower_bound` is a number of hosts that no overload-free schedule can undercut; above the number of
    hosts it proves that none exists. `utilisation` and `overload` are shares of capacity: the mean over
    used hosts and time, and the mean excess over time among the overloaded hosts.
    """

    assignment: Mapping[str, str]
    used_hosts: int
    lower_bound: int
    utilisation: float
    overload: float
    overloaded_hosts: int
    migrations: int
    traffic: float
    cost: float

    @property
    def feasible(self) -> bool:
        """No host is ever loaded above its capacity."""
        return self.overloaded_hosts == 0

    @property
    def proven_optimal(self) -> bool:
        """No schedule without overload uses fewer hosts."""
        return self.feasible and self.used_hosts == self.lower_bound

    def to_json(self, seconds: float | None = None) -> dict[str, Any]:
        """The result document; `seconds` is the caller's clock."""
        return {
            "assignment": dict(self.assignment),
            "used_hosts": self.used_hosts,
            "lower_bound": self.lower_bound,
            "utilisation": self.utilisation,
            "overload": self.overload,
            "overloaded_hosts": self.overloaded_hosts,
            "migrations": self.migrations,
            "traffic": self.traffic,
            "cost": self.cost,
            "seconds": seconds,
        }


def utilisation(problem: Problem, load: FloatArray) -> FloatArray:
    """`util_v(t) = min_w served_w(t) / w_v` (equation 14), hosts × time, over the resources that are in demand."""
    wanted = problem.demand.max(axis=(0, 2)) > 0
    if not wanted.any():
        return np.zeros((load.shape[0], load.shape[2]))
    room = problem.capacity[:, wanted, None]
    share = np.divide(load[:, wanted], room, out=np.full_like(load[:, wanted], np.inf), where=room > 0)
    least: FloatArray = np.minimum(np.where(room > 0, share, 1.0), 1.0).min(axis=1)
    return least


def overload(problem: Problem, load: FloatArray) -> FloatArray:
    """`over_v(t) = max_w Σ RR_w(t) / w_v` (equation 15) beyond 1, hosts × time; rounding is not overload."""
    room = problem.capacity[:, :, None]
    share = np.divide(load, room, out=np.where(load > 0, np.inf, 0.0), where=room > 0)
    beyond = share.max(axis=1) - 1.0
    return np.where(beyond > TOLERANCE, beyond, 0.0)


def traffic(problem: Problem, hosts: IntArray) -> float:
    """`Σ rate · distance` over edges; tasks on one host talk for free."""
    if not problem.rates.size:
        return 0.0
    one, other = hosts[problem.senders], hosts[problem.receivers]
    distance = problem.separation[problem.region[one], problem.region[other]]
    return float((problem.rates * np.where(one == other, SAME_HOST, distance)).sum())


def migrations(problem: Problem, hosts: IntArray) -> int:
    """Running tasks that would change host."""
    return int(((problem.placed != UNPLACED) & (problem.placed != hosts)).sum())


def evaluate(problem: Problem, hosts: IntArray) -> Schedule:
    """The schedule in which task i runs on host `hosts[i]`."""
    load = loads(problem, hosts)
    used = np.unique(hosts)
    over = overload(problem, load)[used].mean(axis=1)
    return Schedule(
        assignment={task.name: problem.hosts[h].name for task, h in zip(problem.tasks, hosts, strict=True)},
        used_hosts=len(used),
        lower_bound=lower_bound(problem),
        utilisation=float(utilisation(problem, load)[used].mean()),
        overload=float(over[over > 0].mean()) if (over > 0).any() else 0.0,
        overloaded_hosts=int((over > 0).sum()),
        migrations=migrations(problem, hosts),
        traffic=traffic(problem, hosts),
        cost=float(problem.cost[used].sum()),
    )
