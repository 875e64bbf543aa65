"""Multi-criteria search for the schedules that no other schedule dominates (NSGA-II, Deb et al. 2002)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .criteria import CRITERIA, HARD_PENALTY, Constraint
from .genetic import GeneticAlgorithm, move_or_swap, refit_overloaded, seeded, tournament, uniform_crossover
from .greedy import best_fit_decreasing, round_robin
from .hostload import excess, flatten
from .packing import pack
from .problem import UNPLACED, Problem
from .replan import within_cap
from .schedule import Schedule, evaluate, migrations


def front_numbers(scores: FloatArray) -> IntArray:
    """0 for rows that none dominates, 1 for those that only front 0 dominates, and so on.

    >>> front_numbers(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [3.0, 3.0]])).tolist()
    [0, 0, 1, 2]
    """
    no_worse = (scores[:, None] <= scores[None]).all(axis=2)
    dominates = np.asarray(no_worse & (scores[:, None] < scores[None]).any(axis=2))
    fronts = np.full(len(scores), -1, dtype=np.int64)
    number = 0
    while (fronts < 0).any():
        left = fronts < 0
        fronts[left & ~dominates[left].any(axis=0)] = number
        number += 1
    return fronts


def crowding(scores: FloatArray) -> FloatArray:
    """Distance between each row's neighbours, summed over the criteria; the ends are infinitely far."""
    distance = np.zeros(len(scores))
    for column in scores.T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]]
        distance[order[[0, -1]]] = np.inf
        if span > 0:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance


def nondominated_rank(scores: FloatArray) -> FloatArray:
    """Position by front, then by descending crowding distance inside the front."""
    fronts = front_numbers(scores)
    apart = np.zeros(len(scores))
    for number in range(int(fronts.max()) + 1):
        apart[fronts == number] = crowding(scores[fronts == number])
    rank = np.empty(len(scores))
    rank[np.lexsort((-apart, fronts))] = np.arange(len(scores))
    return rank


def nsga2(parents: FloatArray, children: FloatArray, size: int) -> tuple[IntArray, IntArray]:
    """Survival by rank of parents and children together."""
    kept = np.argsort(nondominated_rank(np.concatenate([parents, children])), kind="stable")[:size]
    return kept[kept < len(parents)], kept[kept >= len(parents)] - len(parents)


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """A schedule on the front with its values, in the order of the criteria asked for."""

    schedule: Schedule
    values: tuple[float, ...]


def pareto_front(
    problem: Problem,
    criteria: Sequence[str],
    rng: np.random.Generator,
    constraints: Sequence[Constraint] = (),
    size: int = 40,
    iterations: int = 60,
) -> list[Tradeoff]:
    """Trade-offs between the criteria, best first by the first of them; each is within the cap on migrations.

    A violated constraint adds to every criterion, so schedules that break a hard constraint never rank with those that
    do not.
    """
    unknown = sorted(set(criteria) - set(CRITERIA))
    if unknown or not criteria:
        raise ValueError(f"unknown criteria {unknown}; known are {sorted(CRITERIA)}")
    flat, hosts = flatten(problem), len(problem.hosts)
    cap = problem.max_migrations

    def score(population: IntArray) -> FloatArray:
        rows = []
        for row in population:
            charge = sum(constraint.charge(problem, row) for constraint in constraints)
            if cap is not None:
                charge += HARD_PENALTY * max(0, migrations(problem, row) - cap)
            rows.append([CRITERIA[name](problem, row) + charge for name in criteria])
        return np.array(rows)

    starts = [pack(problem, rng).hosts, best_fit_decreasing(problem, rng), round_robin(problem, rng)]
    if (problem.placed != UNPLACED).all():
        starts.append(problem.placed.copy())
    starts = [within_cap(problem, start) for start in starts]
    tight = excess(flat, starts[0]) == 0 and "overload" not in criteria
    mutation = move_or_swap(1.0, hosts)
    evolution = GeneticAlgorithm(
        sampling=seeded(np.array(starts), mutation),
        score=score,
        selection=tournament(nondominated_rank),
        crossover=uniform_crossover(0.5),
        mutation=mutation,
        repair=refit_overloaded(flat) if tight else lambda rows, rng: rows,
        survival=nsga2,
        size=size,
        iterations=iterations,
    ).run(rng)
    return _distinct(problem, evolution.population, evolution.scores)


def _distinct(problem: Problem, population: IntArray, scores: FloatArray) -> list[Tradeoff]:
    best = np.flatnonzero(front_numbers(scores) == 0)
    values, first = np.unique(scores[best], axis=0, return_index=True)
    return [
        Tradeoff(evaluate(problem, population[best[row]]), tuple(float(v) for v in value))
        for value, row in zip(values, first, strict=True)
    ]
