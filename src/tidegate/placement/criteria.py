"""What makes one assignment better than another: criteria, constraints, and their weighted sum (equation 20)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .arrays import FloatArray, IntArray
from .hostload import loads
from .problem import Problem
from .schedule import migrations, overload, traffic, utilisation

Criterion = Callable[[Problem, IntArray], float]  # of one assignment, smaller is better
HARD_PENALTY = 1e9  # ranks schedules that break hard constraints after all others


def used_hosts(problem: Problem, hosts: IntArray) -> float:
    """Hosts with at least one task."""
    return float(np.unique(hosts).size)


def idleness(problem: Problem, hosts: IntArray) -> float:
    """1 − mean utilisation of the used hosts (equation 14)."""
    return 1.0 - float(utilisation(problem, loads(problem, hosts))[np.unique(hosts)].mean())


def overloading(problem: Problem, hosts: IntArray) -> float:
    """Mean demand beyond capacity over time, summed over hosts (equation 15)."""
    return float(np.minimum(overload(problem, loads(problem, hosts)), 1e6).mean(axis=1).sum())


def cost(problem: Problem, hosts: IntArray) -> float:
    """`Σ rate(h_v)` of the used hosts per unit of time (equation 16)."""
    return float(problem.cost[np.unique(hosts)].sum())


CRITERIA: Mapping[str, Criterion] = {
    "used_hosts": used_hosts,
    "idleness": idleness,
    "overload": overloading,
    "traffic": traffic,
    "cost": cost,
    "migrations": lambda problem, hosts: float(migrations(problem, hosts)),
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """`violation` must be 0; a finite `penalty` per unit makes it soft."""

    name: str
    violation: Criterion
    penalty: float = math.inf

    def __post_init__(self) -> None:
        if math.isnan(self.penalty) or self.penalty <= 0:
            raise ValueError(f"constraint {self.name!r}: penalty must be positive, not {self.penalty}")

    def charge(self, problem: Problem, hosts: IntArray) -> float:
        """Return the penalty of violating it."""
        return min(self.penalty, HARD_PENALTY) * self.violation(problem, hosts)


def capacity(resource: str, penalty: float = math.inf) -> Constraint:
    """Demand of one resource stays within every host; the violation is relative to the host, summed, mean over time."""

    def violation(problem: Problem, hosts: IntArray) -> float:
        at = problem.resources.index(resource)
        room = problem.capacity[:, at, None]
        beyond = loads(problem, hosts)[:, at] - room * (1 + 1e-9)
        relative = beyond / np.where(room > 0, room, max(float(room.max()), 1e-300))
        return float(np.maximum(relative, 0.0).mean(axis=1).sum())

    return Constraint(f"capacity of {resource}", violation, penalty)


def at_most(criterion: str, limit: float, penalty: float = math.inf) -> Constraint:
    """A criterion stays within a limit, e.g. `at_most("cost", 12.0)` as a budget."""
    measure = CRITERIA[criterion]
    return Constraint(f"{criterion} ≤ {limit}", lambda p, hosts: max(0.0, measure(p, hosts) - limit), penalty)


@dataclass(frozen=True, slots=True)
class WeightedCriteria:
    """`min Σ α_i g_i(S) + Σ β_j c_j(S)`: weights of criteria by name, and constraints with penalties (equation 20)."""

    weights: Mapping[str, float]
    constraints: tuple[Constraint, ...] = field(default=())

    def __post_init__(self) -> None:
        unknown = sorted(set(self.weights) - set(CRITERIA))
        if unknown:
            raise ValueError(f"unknown criteria {unknown}; known are {sorted(CRITERIA)}")
        if not all(math.isfinite(w) and w >= 0 for w in self.weights.values()):
            raise ValueError(f"weights must be finite and not negative: {dict(self.weights)}")

    def score(self, problem: Problem, hosts: IntArray) -> float:
        """The weighted sum; smaller is better."""
        gain = sum(weight * CRITERIA[name](problem, hosts) for name, weight in self.weights.items() if weight)
        return gain + sum(constraint.charge(problem, hosts) for constraint in self.constraints)

    def scores(self, problem: Problem, population: IntArray) -> FloatArray:
        """One column: the score of each row of the population."""
        return np.array([[self.score(problem, hosts)] for hosts in population])
