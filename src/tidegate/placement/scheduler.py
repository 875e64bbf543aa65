"""The interface of all schedulers, and the schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tidegate import extensions
from tidegate.laboratory import how_to_install

from .arrays import IntArray
from .greedy import best_fit_decreasing, first_fit_decreasing, round_robin
from .problem import Problem
from .replan import within_cap
from .schedule import Schedule, evaluate
from .tidegate import Tidegate

Rule = Callable[[Problem, np.random.Generator], IntArray]  # the host of every task


class Scheduler(Protocol):
    """Turns a problem into a schedule. All randomness comes from the generator."""

    def schedule(self, problem: Problem, rng: np.random.Generator) -> Schedule:
        """A host for every task, with at most `problem.max_migrations` running tasks moved."""
        ...


@dataclass(frozen=True, slots=True)
class RuleScheduler:
    """A rule as a scheduler: its assignment is limited to the allowed migrations and measured."""

    rule: Rule

    def schedule(self, problem: Problem, rng: np.random.Generator) -> Schedule:
        """See `Scheduler`."""
        return evaluate(problem, within_cap(problem, self.rule(problem, rng)))


SCHEDULERS: Mapping[str, Scheduler] = {
    "round-robin": RuleScheduler(round_robin),
    "ffd": RuleScheduler(first_fit_decreasing),
    "best-fit": RuleScheduler(best_fit_decreasing),
    "tidegate": RuleScheduler(Tidegate()),
}


def scheduler(name: str) -> Scheduler:
    """The scheduler of this name, built in or installed.

    >>> problem = Problem.from_arrays(np.full((4, 1, 1), 250.0), np.full((4, 1), 500.0))
    >>> scheduler("tidegate").schedule(problem, np.random.default_rng(1)).used_hosts
    2
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    if problem := unknown_scheduler(name):
        raise ValueError(problem)
    found: Scheduler = extensions.make("schedulers", name)
    return found


def unknown_scheduler(name: str) -> str | None:
    """An error message, or None if a scheduler of this name exists."""
    if name in SCHEDULERS:
        return None
    known = (*SCHEDULERS, *extensions.names("schedulers"))
    if name in known:
        return None
    return how_to_install("schedulers", name) or f"unknown scheduler {name!r}; known are {', '.join(known)}"
