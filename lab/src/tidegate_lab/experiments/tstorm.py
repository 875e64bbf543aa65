"""T-Storm (Xu et al. 2014): tasks by descending traffic, each to the host that adds the least traffic between hosts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.placement import RuleScheduler, Scheduler
from tidegate.placement.arrays import IntArray
from tidegate.placement.hostload import TOLERANCE, flatten
from tidegate.placement.problem import SAME_HOST, Problem


@dataclass(frozen=True, slots=True)
class TStorm:
    """`argmin_j Σ_{i' not on j} (r_ii' + r_i'i) · distance` within load and `⌈γ · tasks / hosts⌉` tasks per host.

    If no host is left, the cap on tasks is dropped, then capacity. Ties go to the fullest host, which consolidates.
    """

    gamma: float = 1.5

    def __post_init__(self) -> None:
        if not self.gamma >= 1:
            raise ValueError(f"gamma must be at least 1, not {self.gamma}")

    def __call__(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        flat = flatten(problem)
        tasks, count = len(problem.tasks), len(problem.hosts)
        partners: list[list[tuple[int, float]]] = [[] for _ in range(tasks)]
        for i, j, rate in zip(problem.senders, problem.receivers, problem.rates, strict=True):
            partners[i].append((int(j), float(rate)))
            partners[j].append((int(i), float(rate)))
        talk = np.array([sum(rate for _, rate in known) for known in partners])
        most = math.ceil(self.gamma * tasks / count)
        load = np.zeros_like(flat.room)
        size = np.zeros(count, dtype=np.int64)
        hosts = np.full(tasks, -1, dtype=np.int64)
        for i in np.argsort(-talk, kind="stable"):
            added = np.zeros(count)
            for other, rate in partners[i]:
                if hosts[other] >= 0:
                    away = problem.separation[problem.region, problem.region[hosts[other]]].copy()
                    away[hosts[other]] = SAME_HOST
                    added += rate * away
            beyond = np.maximum(load + flat.demand[i] - flat.room, 0.0).sum(axis=1)
            fits = beyond <= TOLERANCE
            for allowed in (fits & (size < most), fits, beyond <= beyond.min()):
                if allowed.any():
                    h = int(np.lexsort((-size, np.where(allowed, added, np.inf)))[0])
                    break
            hosts[i] = h
            load[h] += flat.demand[i]
            size[h] += 1
        return hosts


def scheduler() -> Scheduler:
    """The algorithm as `tidegate schedule --scheduler tstorm` knows it."""
    return RuleScheduler(TStorm())
