"""Minimises hosts: closes some and repairs by annealing or ejection, until the bound is met or the budget is spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from .annealing import anneal
from .arrays import FloatArray, IntArray, stream
from .bounds import flat_bound
from .ejection import eject
from .greedy import BEST_FIT, FIRST_FIT, decreasing, fit_in_order, largest_first, roomiest_first
from .hostload import TOLERANCE, Flat, excess, flatten, sum_by_host
from .problem import UNPLACED, Problem
from .rstorm import RStorm

Repair = Callable[["Flat", IntArray, int, NDArray[np.uint64]], int]
ATTEMPT_SHARE = 0.25  # of the budget, for one attempt at one host fewer
PROBE_SHARE = 0.08  # for one attempt at several hosts fewer
FEW_MIXTURES = 40  # up to this many mixtures of host kinds, all are tried
RANDOM_SETS = 4
RSTORM_TASKS = 2_000  # up to this many tasks, R-Storm's plan is one of the starts, so the result is never worse
SECOND_SHARE = 0.3  # share of an attempt for the repair that failed last time


def default_budget(problem: Problem, flat: Flat) -> int:
    """Return the evaluations for about 4 ms per task on one core, 0.1 to 15 s in total."""
    nominal_us = min(max(4_000.0 * len(problem.tasks), 1e5), 15e6)
    return int(nominal_us / (0.06 + 0.0008 * flat.demand.shape[1]))


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """An assignment, its bound, and after each improvement the evaluations spent and the hosts in use."""

    hosts: IntArray
    bound: int
    progress: tuple[tuple[int, int], ...]


def pack(
    problem: Problem, rng: np.random.Generator, budget: int | None = None, start: IntArray | None = None
) -> Packing:
    """Search for the fewest hosts without overload; with too little capacity, for the least overload.

    The budget counts evaluations, not seconds: the same generator gives the same result on a slower machine.
    """
    flat = flatten(problem)
    bound = flat_bound(flat)
    budget = default_budget(problem, flat) if budget is None else budget
    seeds = [decreasing(problem, flat, BEST_FIT), decreasing(problem, flat, FIRST_FIT)]
    seeds += [RStorm(cpu_only=True)(problem, rng)] if len(problem.tasks) <= RSTORM_TASKS else []
    seeds += [] if start is None else [start]
    best = min(seeds, key=lambda hosts: (excess(flat, hosts), np.unique(hosts).size))
    search = _Search(flat, roomiest_first(flat, problem), rng, budget, best)
    if excess(flat, best) > 0:
        search.attempt(search.ranking, budget // 2)
    if excess(flat, search.best) == 0:
        search.close_hosts(bound)
    return Packing(search.best, bound, tuple(search.progress))


class _Search:
    """The state of one search: the best assignment so far, what was spent, and which repair worked last."""

    def __init__(self, flat: Flat, ranking: IntArray, rng: np.random.Generator, budget: int, best: IntArray):
        self.flat, self.ranking, self.rng, self.budget, self.best = flat, ranking, rng, budget, best
        self.state = stream(rng)
        self.spent = 0
        self.progress = [(0, int(np.unique(best).size))]
        self.repairs: list[Repair] = [_by_ejection, _by_annealing]

    def close_hosts(self, bound: int) -> None:
        """Aim halfway to the bound. Halve the step on failure; at a step of one host, keep trying."""
        used = int(np.unique(self.best).size)
        step = max(1, (used - bound) // 2)
        while used > bound and self.spent < self.budget:
            before = self.spent
            share = self.budget * (ATTEMPT_SHARE if step == 1 else PROBE_SHARE)
            if self._fit_on(used - step, int(min(share, self.budget - before))):
                used = int(np.unique(self.best).size)
                step = max(1, min(2 * step, (used - bound) // 2))
            elif step > 1:
                step //= 2
            elif self.spent == before:
                break  # no set of this many hosts has enough capacity

    def _fit_on(self, count: int, evaluations: int) -> bool:
        load = sum_by_host(self.flat.demand, self.best, self.flat.room.shape[0]).mean(axis=1)
        used = np.unique(self.best)
        fullest = used[np.argsort(-load[used], kind="stable")][:count]
        sets = host_sets(self.flat, self.ranking, fullest, self.rng)
        return any(self.attempt(kept, max(1, evaluations // len(sets))) for kept in sets)

    def attempt(self, kept: IntArray, evaluations: int) -> bool:
        """Whether all tasks could be fitted on the kept hosts; `best` becomes that, or a less overloaded assignment."""
        index = np.full(self.flat.room.shape[0], UNPLACED, dtype=np.int64)
        index[kept] = np.arange(len(kept))
        part = Flat(_with_nothing(self.flat.demand), np.ascontiguousarray(self.flat.room[kept]))
        for repair, share in list(zip(self.repairs, (1.0, SECOND_SHARE), strict=True)):
            hosts = index[self.best]
            self.spent += repair(part, hosts, int(evaluations * share), self.state)
            if (hosts < 0).any():
                continue
            placed = kept[hosts]
            left = excess(self.flat, placed)
            if left == 0:
                self.best = placed
                self.progress.append((self.spent, int(np.unique(placed).size)))
                self.repairs.sort(key=lambda known: known is not repair)  # try first what worked last time
                return True
            if left < excess(self.flat, self.best):
                self.best = placed
        return False


def host_sets(flat: Flat, ranking: IntArray, fullest: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Sets of hosts worth trying, as many as in `fullest`: that one, and for unlike hosts other mixtures of kinds.

    All mixtures where they are few, else the one that covers the load most evenly, the hosts whose shape is nearest to
    the load's, the roomiest, and some at random.
    Sets that cannot hold the total load, or one of the tasks, are left out.
    """
    kinds, kind, counts = np.unique(flat.room[ranking], axis=0, return_inverse=True, return_counts=True)
    number = len(fullest)
    if len(kinds) == 1:
        return [fullest]
    if math.comb(len(kinds) + number - 1, number) <= FEW_MIXTURES:
        chosen = combinations_with_replacement(range(len(kinds)), number)
        mixtures = [np.bincount(mixture, minlength=len(kinds)) for mixture in chosen]
    else:
        mixtures = [even_mixture(flat.demand.sum(axis=0), kinds, counts, number)]
    sets = [
        np.concatenate([ranking[kind == k][: mixture[k]] for k in range(len(kinds))])
        for mixture in mixtures
        if (mixture <= counts).all()
    ]
    scarce = (flat.room[ranking] / np.maximum(flat.demand.sum(axis=0), 1e-300)).min(axis=1)
    sets += [ranking[np.argsort(-scarce, kind="stable")][:number], fullest, ranking[:number]]
    if len(mixtures) == 1:
        size = flat.room[ranking].mean(axis=1)
        sets += [rng.choice(ranking, number, replace=False, p=size / size.sum()) for _ in range(RANDOM_SETS)]
    distinct = {tuple(sorted(kept.tolist())): kept for kept in sets}
    return [kept for kept in distinct.values() if _can_hold(flat, kept)]


def even_mixture(total: FloatArray, kinds: FloatArray, counts: IntArray, number: int) -> IntArray:
    """How many hosts of each kind, `number` in all, leave the most room where it is scarcest.

    `max λ` s.t. `Σ_k y_k · kind_k ≥ λ · total`, `Σ y = number`, `0 ≤ y ≤ counts`; the largest fractions are rounded up.
    """
    kept = total > 0
    columns = int(kept.sum())
    from scipy.optimize import linprog

    result = linprog(
        np.concatenate([np.zeros(len(kinds)), [-1.0]]),
        A_ub=np.hstack([-kinds[:, kept].T, total[kept, None]]),
        b_ub=np.zeros(columns),
        A_eq=np.concatenate([np.ones(len(kinds)), [0.0]])[None],
        b_eq=[float(number)],
        bounds=[(0.0, float(count)) for count in counts] + [(0.0, None)],
        method="highs",
    )
    if not result.success or result.x is None:
        return np.zeros(len(kinds), dtype=np.int64)
    share = np.asarray(result.x[:-1], dtype=np.float64)
    mixture = np.floor(share + TOLERANCE).astype(np.int64)
    for k in np.argsort(mixture - share, kind="stable")[: number - int(mixture.sum())]:
        mixture[k] += 1
    return mixture


def _can_hold(flat: Flat, kept: IntArray) -> bool:
    """Whether the hosts cover the total load in every column, and each task fits on one of them alone."""
    room = flat.room[kept]
    if not kept.size or (flat.demand.sum(axis=0) > room.sum(axis=0) + TOLERANCE * len(flat.demand)).any():
        return False
    fits = np.zeros(len(flat.demand), dtype=np.bool_)
    for one in np.unique(room, axis=0):
        fits |= (flat.demand <= one + TOLERANCE).all(axis=1)
    return bool(fits.all())


def _with_nothing(demand: FloatArray) -> FloatArray:
    """The demand with a row of zeros at the end: the empty task that a plain move is swapped with."""
    return np.vstack([demand, np.zeros((1, demand.shape[1]))])


def _by_ejection(part: Flat, hosts: IntArray, evaluations: int, state: NDArray[np.uint64]) -> int:
    over = sum_by_host(part.demand[:-1], hosts, part.room.shape[0]) - part.room
    crowded = np.flatnonzero((over > TOLERANCE).any(axis=1))
    hosts[np.isin(hosts, crowded)] = UNPLACED
    return int(eject(part.demand, part.room, hosts, evaluations, state))


def _by_annealing(part: Flat, hosts: IntArray, evaluations: int, state: NDArray[np.uint64]) -> int:
    fit_in_order(part.demand[:-1], part.room, largest_first(part.demand[:-1]), hosts, BEST_FIT)
    return int(anneal(part.demand, part.room, hosts, evaluations, state))
