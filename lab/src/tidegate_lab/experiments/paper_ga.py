"""The genetic algorithm of Melnik et al. 2018, section 5: random start, fitness of idle and overloaded capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.placement.arrays import FloatArray, IntArray, kernel
from tidegate.placement.genetic import (
    Evolution,
    GeneticAlgorithm,
    first_objective,
    generational,
    move_or_swap,
    random_hosts,
    tournament,
    unchanged,
    uniform_crossover,
)
from tidegate.placement.hostload import normalise
from tidegate.placement.problem import Problem
from tidegate.placement.scheduler import RuleScheduler, Scheduler


@kernel
def idle_and_overload(demand: FloatArray, room: FloatArray, population: IntArray, penalty: float) -> FloatArray:
    """`F = Σ_used hosts Σ_t (room − u)⁺ + penalty · Σ (u − room)⁺`; unused hosts cost nothing, so fewer hosts win.

    Without overload F only counts hosts: moving a task from one used host to another changes nothing, until a host is
    empty. The way to fewer hosts therefore leads through small overloads, and a low penalty opens it.
    """
    count, columns = room.shape
    fitness = np.zeros((population.shape[0], 1))
    load = np.zeros((count, columns))
    used = np.zeros(count, np.int64)
    for p in range(population.shape[0]):
        load[:] = 0.0
        used[:] = 0
        for i in range(demand.shape[0]):
            h = population[p, i]
            used[h] = 1
            for m in range(columns):
                load[h, m] += demand[i, m]
        total = 0.0
        for h in range(count):
            if used[h]:
                for m in range(columns):
                    free = room[h, m] - load[h, m]
                    total += max(free, -penalty * free)
        fitness[p, 0] = total
    return fitness


@dataclass(frozen=True, slots=True)
class PaperGA:
    """The published rates. The paper calls its selection only fitness-driven; a binary tournament is used here.

    The paper gives no penalty either, but accepts "minor overloads" and says that stronger penalties avoid them.
    """

    size: int = 100
    iterations: int = 1000
    elites: int = 3
    crossover: float = 0.3
    mutation: float = 0.2
    penalty: float = 2.0

    def evolve(self, problem: Problem, rng: np.random.Generator) -> Evolution:
        """The whole run, with its convergence."""
        flat = normalise(problem)
        tasks, hosts = len(problem.tasks), len(problem.hosts)
        return GeneticAlgorithm(
            sampling=random_hosts(tasks, hosts),
            score=lambda population: idle_and_overload(flat.demand, flat.room, population, self.penalty),
            selection=tournament(first_objective),
            crossover=uniform_crossover(self.crossover),
            mutation=move_or_swap(self.mutation, hosts),
            repair=unchanged,
            survival=generational(self.elites),
            size=self.size,
            iterations=self.iterations,
        ).run(rng)

    def __call__(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        return self.evolve(problem, rng).best


def scheduler() -> Scheduler:
    """The algorithm as `tidegate schedule --scheduler paper-ga` knows it."""
    return RuleScheduler(PaperGA())
