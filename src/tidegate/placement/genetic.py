"""A genetic algorithm composed of small operators over arrays: sampling, selection, crossover, mutation, repair,
survival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .greedy import BEST_FIT, fit_in_order, largest_first
from .hostload import TOLERANCE, Flat, sum_by_host
from .problem import UNPLACED

Rng = np.random.Generator
Sampling = Callable[[int, Rng], IntArray]  # size → population, one assignment per row
Score = Callable[[IntArray], FloatArray]  # population → one row of objectives each, smaller is better
Selection = Callable[[FloatArray, int, Rng], IntArray]  # scores, count → rows
Variation = Callable[[IntArray, Rng], IntArray]  # rows → changed rows (crossover mates rows 2k and 2k + 1)
Survival = Callable[
    [FloatArray, FloatArray, int], tuple[IntArray, IntArray]
]  # parents', children's scores → rows of each


@dataclass(frozen=True, slots=True, eq=False)
class Evolution:
    """The last population with its scores, and the best value of the first objective in every generation."""

    population: IntArray
    scores: FloatArray
    history: FloatArray

    @property
    def best(self) -> IntArray:
        """The row with the smallest first objective."""
        row: IntArray = self.population[int(self.scores[:, 0].argmin())]
        return row


@dataclass(frozen=True, slots=True)
class GeneticAlgorithm:
    """Combines the operators. `unchanged` is the null object for an operator that is not needed."""

    sampling: Sampling
    score: Score
    selection: Selection
    crossover: Variation
    mutation: Variation
    repair: Variation
    survival: Survival
    size: int
    iterations: int

    def run(self, rng: Rng) -> Evolution:
        """Evolve; a child equal to its parent keeps the parent's score."""
        population = self.sampling(self.size, rng)
        scores = self.score(population)
        history = np.empty(self.iterations + 1)
        history[0] = scores[:, 0].min()
        for generation in range(self.iterations):
            chosen = self.selection(scores, self.size, rng)
            parents = population[chosen]
            children = self.repair(self.mutation(self.crossover(parents, rng), rng), rng)
            child_scores = scores[chosen]
            changed = np.flatnonzero((children != parents).any(axis=1))
            if changed.size:
                child_scores[changed] = self.score(children[changed])
            stay, join = self.survival(scores, child_scores, self.size)
            population = np.concatenate([population[stay], children[join]])
            scores = np.concatenate([scores[stay], child_scores[join]])
            history[generation + 1] = scores[:, 0].min()
        return Evolution(population, scores, history)


def unchanged(rows: IntArray, rng: Rng) -> IntArray:
    """No variation."""
    return rows


def random_hosts(tasks: int, hosts: int) -> Sampling:
    """Every task on any host."""
    return lambda size, rng: rng.integers(0, hosts, size=(size, tasks))


def seeded(seeds: IntArray, mutation: Variation) -> Sampling:
    """The given assignments, then mutated copies of them."""

    def sample(size: int, rng: Rng) -> IntArray:
        rows = seeds[np.arange(size) % len(seeds)]
        rows[len(seeds) :] = mutation(rows[len(seeds) :].copy(), rng)
        return rows

    return sample


def tournament(rank: Callable[[FloatArray], FloatArray], rounds: int = 2) -> Selection:
    """The best of `rounds` random individuals, by rank."""

    def select(scores: FloatArray, count: int, rng: Rng) -> IntArray:
        draws = rng.integers(0, len(scores), size=(count, rounds))
        ranks = rank(scores)[draws]
        picked: IntArray = draws[np.arange(count), ranks.argmin(axis=1)]
        return picked

    return select


def first_objective(scores: FloatArray) -> FloatArray:
    """Rank of a single-objective search: the score itself."""
    column: FloatArray = scores[:, 0]
    return column


def uniform_crossover(probability: float) -> Variation:
    """Each pair mates with the probability; a child takes every gene from either parent, its sibling the other."""

    def cross(rows: IntArray, rng: Rng) -> IntArray:
        rows = rows.copy()
        pairs = np.flatnonzero(rng.random(len(rows) // 2) < probability) * 2
        mothers, fathers = rows[pairs], rows[pairs + 1]
        swap = rng.integers(0, 2, size=mothers.shape, dtype=np.int8).astype(np.bool_)
        rows[pairs] = np.where(swap, fathers, mothers)
        rows[pairs + 1] = np.where(swap, mothers, fathers)
        return rows

    return cross


def move_or_swap(probability: float, hosts: int) -> Variation:
    """With the probability, move one task to any host or exchange the hosts of two tasks (the paper's Figure 5)."""

    def mutate(rows: IntArray, rng: Rng) -> IntArray:
        rows = rows.copy()
        mutants = np.flatnonzero(rng.random(len(rows)) < probability)
        tasks = rng.integers(0, rows.shape[1], size=(2, len(mutants)))
        targets = rng.integers(0, hosts, size=len(mutants))
        moving = rng.random(len(mutants)) < 0.5
        one, other = rows[mutants, tasks[0]], rows[mutants, tasks[1]]
        rows[mutants, tasks[0]] = np.where(moving, targets, other)
        stay, second = mutants[~moving], tasks[1][~moving]
        rows[stay, second] = one[~moving]
        return rows

    return mutate


def refit_overloaded(flat: Flat) -> Variation:
    """Place the tasks of overloaded hosts again by best fit."""
    order = largest_first(flat.demand)

    def repair(rows: IntArray, rng: Rng) -> IntArray:
        for hosts in rows:
            over = sum_by_host(flat.demand, hosts, flat.room.shape[0]) - flat.room
            crowded = np.flatnonzero((over > TOLERANCE).any(axis=1))
            if crowded.size:
                hosts[np.isin(hosts, crowded)] = UNPLACED
                fit_in_order(flat.demand, flat.room, order, hosts, BEST_FIT)
        return rows

    return repair


def generational(elites: int) -> Survival:
    """Keep the best parents and replace all others by children."""

    def survive(parents: FloatArray, children: FloatArray, size: int) -> tuple[IntArray, IntArray]:
        return np.argsort(parents[:, 0], kind="stable")[:elites], np.arange(size - elites)

    return survive


def fittest(parents: FloatArray, children: FloatArray, size: int) -> tuple[IntArray, IntArray]:
    """The best of parents and children together (μ + λ)."""
    kept = np.argsort(np.concatenate([parents[:, 0], children[:, 0]]), kind="stable")[:size]
    return kept[kept < len(parents)], kept[kept >= len(parents)] - len(parents)
