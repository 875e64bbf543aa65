"""Independent searches from different seeds, merged into one schedule that depends only on the seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .arrays import IntArray
from .problem import Problem
from .replan import within_cap
from .schedule import Schedule, evaluate
from .tidegate import Tidegate, quality

Engine = Callable[
    [Callable[[Any], Any], list[Any]], list[Any]
]  # like map, in order: in this process, in processes or in Spark tasks


@dataclass(frozen=True, slots=True)
class IslandResult:
    """The result of one island, as plain values that can be sent between processes."""

    quality: tuple[float, ...]
    seed: int
    hosts: tuple[int, ...]


def solve_island(problem: Problem, seed: int, budget: int | None = None) -> IslandResult:
    """Run one search. `budget` counts evaluations, so the result does not depend on the machine."""
    hosts = within_cap(problem, Tidegate(budget=budget)(problem, np.random.default_rng(seed)))
    return IslandResult(quality(problem, hosts), seed, tuple(int(h) for h in hosts))


def merge(candidates: Sequence[IslandResult]) -> IslandResult:
    """Return the best candidate; ties go to the smaller seed, so the order of arrival does not matter."""
    if not candidates:
        raise ValueError("no candidate to merge: at least one island must run")
    return min(candidates, key=lambda c: (c.quality, c.seed))


def in_turn(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    """The engine of one machine: one island after the other."""
    return [function(item) for item in items]


def solve_islands(
    problem: Problem, seeds: Sequence[int], budget: int | None = None, engine: Engine = in_turn
) -> Schedule:
    """Run an island per seed on the engine and keep the best."""
    found = engine(partial(_island, problem, budget), list(seeds))
    hosts: IntArray = np.array(merge(found).hosts, dtype=np.int64)
    return evaluate(problem, hosts)


def _island(problem: Problem, budget: int | None, seed: int) -> IslandResult:
    return solve_island(problem, seed, budget)
