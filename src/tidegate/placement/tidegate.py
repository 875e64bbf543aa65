"""Tidegate's own scheduler: the fewest hosts, then low cost, few moves and little traffic, or a weighted sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .colocate import colocate
from .criteria import HARD_PENALTY, WeightedCriteria
from .genetic import (
    GeneticAlgorithm,
    first_objective,
    fittest,
    move_or_swap,
    seeded,
    tournament,
    unchanged,
    uniform_crossover,
)
from .greedy import best_fit_decreasing, round_robin
from .hostload import excess, flatten
from .packing import pack
from .problem import UNPLACED, Problem
from .replan import improve_current, settle, within_cap
from .schedule import migrations, traffic


def quality(problem: Problem, hosts: IntArray) -> tuple[float, ...]:
    """Return the default criteria in order of priority: overload, hosts, cost, migrations, traffic."""
    used = np.unique(hosts)
    return (
        excess(flatten(problem), hosts),
        float(used.size),
        float(problem.cost[used].sum()),
        float(migrations(problem, hosts)),
        traffic(problem, hosts),
    )


@dataclass(frozen=True, slots=True)
class Tidegate:
    """Without an objective by `quality`, stopping at the lower bound; with one, a seeded genetic search on it.

    `budget` counts evaluations; by default it grows with the problem.
    """

    objective: WeightedCriteria | None = None
    budget: int | None = None
    size: int = 40
    iterations: int = 150

    def __call__(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        packed = self._packed(problem, rng)
        if self.objective is None:
            return packed
        return self._weighted(problem, packed, self.objective, rng)

    def _packed(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        running = problem.placed != UNPLACED
        start = improve_current(problem, len(problem.tasks)) if running.any() else None
        target = settle(problem, pack(problem, rng, self.budget, start).hosts)
        candidates = [target]
        if running.any():
            cap = len(problem.tasks) if problem.max_migrations is None else problem.max_migrations
            candidates = [within_cap(problem, target), improve_current(problem, cap)]
        candidates = [colocate(problem, hosts) for hosts in candidates]
        return min(candidates, key=lambda hosts: quality(problem, hosts))

    def _weighted(
        self, problem: Problem, packed: IntArray, objective: WeightedCriteria, rng: np.random.Generator
    ) -> IntArray:
        cap = problem.max_migrations
        starts = [packed, best_fit_decreasing(problem, rng), round_robin(problem, rng)]
        if (problem.placed != UNPLACED).all():
            starts.append(problem.placed.copy())
        starts = [within_cap(problem, start) for start in starts]

        def score(population: IntArray) -> FloatArray:
            scores = objective.scores(problem, population)
            if cap is not None:
                beyond = [max(0, migrations(problem, hosts) - cap) for hosts in population]
                scores[:, 0] += HARD_PENALTY * 1e3 * np.array(beyond)
            return scores

        mutation = move_or_swap(0.9, len(problem.hosts))
        evolution = GeneticAlgorithm(
            sampling=seeded(np.array(starts), mutation),
            score=score,
            selection=tournament(first_objective),
            crossover=uniform_crossover(0.3),
            mutation=mutation,
            repair=unchanged,
            survival=fittest,
            size=self.size,
            iterations=self.iterations,
        ).run(rng)
        return evolution.best
