"""R-Storm (Peng et al. 2015): tasks breadth-first, each to the host whose availability is nearest to its demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .hostload import TOLERANCE
from .problem import Problem

HARD = "memory"  # R-Storm never overcommits memory, and other resources only if there is no alternative


def breadth_first_order(problem: Problem) -> list[int]:
    """Tasks by component rank, breadth-first from the sources, one task per component in turn.

    Topologies follow one another in the order in which they are first named.
    """
    order: list[int] = []
    for topology in dict.fromkeys(task.topology for task in problem.tasks):
        queues: dict[str, list[int]] = {}
        for i, task in enumerate(problem.tasks):
            if task.topology == topology:
                queues.setdefault(task.component, []).append(i)
        neighbours: dict[str, dict[str, None]] = {name: {} for name in queues}
        fed: set[str] = set()
        for i, j in zip(problem.senders, problem.receivers, strict=True):
            one, other = problem.tasks[i].component, problem.tasks[j].component
            if one in queues and other in queues and one != other:
                neighbours[one][other] = neighbours[other][one] = None
                fed.add(other)
        ranked: dict[str, None] = {}
        # A cycle has no source: its first component starts it.
        for start in [name for name in queues if name not in fed] + list(queues):
            frontier = [start] if start not in ranked else []
            while frontier:
                ranked.update(dict.fromkeys(frontier))
                frontier = list(dict.fromkeys(n for f in frontier for n in neighbours[f] if n not in ranked))
        while any(queues.values()):
            order += [queues[name].pop(0) for name in ranked if queues[name]]
    return order


@dataclass(frozen=True, slots=True)
class RStorm:
    """`d = sqrt(Σ_r [w_r (c_r − C_r) / (C_r + 1)]² + [w_n · net(last, host)]²)`; the smallest d that fits wins.

    c is the peak demand of the task and C what the host's merged signal leaves at its peak. `declared_peak`
    adds up the tasks' own peaks instead of merging signals, as a declared, static demand would.
    """

    cpu_only: bool = False
    declared_peak: bool = False
    network_weight: float = 1.0

    def __call__(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        counted = self._counted(problem)
        demand = problem.demand[:, counted]
        if self.declared_peak:
            demand = demand.max(axis=2, keepdims=True)
        capacity = problem.capacity[:, counted]
        hard = np.array([problem.resources[r] == HARD for r in counted])
        load = np.zeros((len(problem.hosts), len(counted), demand.shape[2]))
        peak = np.zeros_like(capacity)
        hosts = np.full(len(problem.tasks), -1, dtype=np.int64)
        last = -1
        for i in breadth_first_order(problem):
            merged = (load + demand[i]).max(axis=2)
            beyond = (merged - capacity) / np.maximum(capacity, 1e-300)
            fits = beyond <= TOLERANCE
            distance = self._distance(problem, demand[i].max(axis=1), capacity - peak, last)
            h = _nearest(distance, fits.all(axis=1), fits[:, hard].all(axis=1), beyond)
            hosts[i] = h
            load[h] += demand[i]
            peak[h] = merged[h]
            last = h
        return hosts

    def _counted(self, problem: Problem) -> list[int]:
        if not self.cpu_only:
            return list(range(len(problem.resources)))
        return [problem.resources.index("cpu") if "cpu" in problem.resources else 0]

    def _distance(self, problem: Problem, wanted: FloatArray, available: FloatArray, last: int) -> FloatArray:
        squares: FloatArray = (((wanted - available) / (np.maximum(available, 0.0) + 1.0)) ** 2).sum(axis=1)
        root: FloatArray = np.sqrt(squares)
        if self.cpu_only:
            return root
        if last < 0:  # the first task goes to the region with the most capacity
            total = np.bincount(problem.region, weights=available.sum(axis=1), minlength=len(problem.separation))
            return root + np.where(problem.region == total.argmax(), 0.0, 1e9)
        net = problem.separation[problem.region[last], problem.region].copy()
        net[last] = 0.0
        distance: FloatArray = np.sqrt(squares + (self.network_weight * net) ** 2)
        return distance


def _nearest(distance: FloatArray, fits: FloatArray, holds_hard: FloatArray, beyond: FloatArray) -> int:
    """Return the nearest host that fits, else the nearest that meets hard constraints, else the least overloaded."""
    for allowed in (fits, holds_hard):
        if allowed.any() and (allowed is fits or not holds_hard.all()):
            return int(np.where(allowed, distance, np.inf).argmin())
    return int(np.maximum(beyond, 0.0).sum(axis=1).argmin())
