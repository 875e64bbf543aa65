"""Parameter plans (Me-Stream, section 3.2): two rules for assigning free slots.

*Bottleneck-level priority*: free slots go to the highest level first, then down. It is for levels that are far apart.
*Parameter-plan priority*: executors grow to `N_executor + φ·level` and tasks by the same factor,

    N'_task = N_task · (N_executor + φ·level) / N_executor

for levels that are close together. An executor of the paper is a slot here. No plan exceeds the existing slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, sqrt
from typing import Literal

_FAR_APART = 0.5  # standard deviation relative to the mean of the bottleneck times

Rule = Literal["level", "parameter"]


@dataclass(frozen=True, slots=True)
class Demand:
    """An application that passed the bottleneck test."""

    application: str
    executors: int
    tasks: int
    """Tasks of its worst operator."""
    level: int
    time_s: float = 0.0
    """The bottleneck time of its worst operator."""
    useful: int | None = None
    """Largest number of executors that it can use; None if unknown."""

    def __post_init__(self) -> None:
        if self.executors < 1 or self.tasks < 1 or self.level < 1:
            raise ValueError(f"{self.application}: executors, tasks and level are at least 1")


@dataclass(frozen=True, slots=True)
class Grant:
    """What an application gets under the plan."""

    application: str
    executors: int
    tasks: int


def choose_rule(demands: Sequence[Demand]) -> Rule:
    """By level if far apart or alone, by parameter plan if close together.

    >>> near = [Demand("a", 4, 4, 2, time_s=1.0), Demand("b", 4, 4, 1, time_s=0.9)]
    >>> choose_rule(near), choose_rule([*near, Demand("c", 4, 4, 3, time_s=9.0)]), choose_rule(near[:1])
    ('parameter', 'level', 'level')
    """
    if len(demands) < 2:
        return "level"
    mean_s = sum(demand.time_s for demand in demands) / len(demands)
    spread_s = sqrt(sum((demand.time_s - mean_s) ** 2 for demand in demands) / len(demands))
    return "level" if spread_s > _FAR_APART * mean_s else "parameter"


def plan_parameters(demands: Sequence[Demand], free_slots: int, rule: Rule, phi: float = 1.0) -> tuple[Grant, ...]:
    """Grants in the order of the demands. In total they grow by no more than the free slots, highest level first.

    >>> plan_parameters([Demand("t1", 8, 16, level=4), Demand("t2", 10, 10, level=2)], free_slots=6, rule="parameter")
    (Grant(application='t1', executors=12, tasks=24), Grant(application='t2', executors=12, tasks=12))
    """
    left = max(0, free_slots)
    grants: dict[str, Grant] = {}
    for demand in sorted(demands, key=lambda demand: (-demand.level, demand.application)):
        wanted = left if rule == "level" else floor(phi * demand.level + 0.5)
        if demand.useful is not None:
            wanted = min(wanted, max(0, demand.useful - demand.executors))
        growth = min(wanted, left)
        left -= growth
        grants[demand.application] = _grant(demand, growth)
    return tuple(grants[demand.application] for demand in demands)


def _grant(demand: Demand, growth: int) -> Grant:
    executors = demand.executors + growth
    return Grant(demand.application, executors, floor(demand.tasks * executors / demand.executors + 0.5))
