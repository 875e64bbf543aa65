"""What all runs of the arena share: the objective, how executors start, and the query that runs on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tidegate.adapters.sim import SimApplication, SimCluster
from tidegate.domain import InvalidInput
from tidegate.domain.policy import Policy
from tidegate.load import LoadProfile
from tidegate_lab.arena.queries import QUERIES, Query

APPLICATION = "query"
PEAK_BUSY = 0.9
"""Utilisation of the peak's executors at the peak: one executor fewer could not sustain it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The plant and the objective, the same for every rival.

    >>> setting = Setting(peak_executors=8)
    >>> setting.max_executors, round(setting.peak_rows_per_s * setting.row_s / setting.slots_per_executor, 6)
    (16, 7.2)
    """

    query: str = "q1"
    objective_s: float = 15.0
    allowed_late: float = 0.01
    startup_s: float = 20.0
    warmup_s: float = 20.0
    warmup_speed: float = 0.5
    peak_executors: int = 8
    slots_per_executor: int = 2
    interval_s: float = 1.0
    row_cost_s: float | None = None
    """Slot-seconds per row, if they were measured; default: those of the query."""
    most_executors: int | None = None
    """Default: twice what the peak needs, to leave room for clearing a backlog."""

    def __post_init__(self) -> None:
        if self.query not in QUERIES:
            raise InvalidInput(f"there is no query {self.query!r}; there are {', '.join(QUERIES)}")
        if self.peak_executors < 2:
            raise InvalidInput(f"the peak needs at least 2 executors, not {self.peak_executors}: else nothing scales")
        for what, seconds in (("start-up", self.startup_s), ("warm-up", self.warmup_s)):
            if not 0 <= seconds < math.inf:
                raise InvalidInput(f"{what} takes 0 or more seconds, not {seconds}")
        if not 0 < self.objective_s < math.inf:
            raise InvalidInput(f"the objective is a positive number of seconds, not {self.objective_s}")

    @property
    def max_executors(self) -> int:
        return self.most_executors or 2 * self.peak_executors

    @property
    def model(self) -> Query:
        return QUERIES[self.query]

    @property
    def row_s(self) -> float:
        """Slot-seconds per source row, in all stages."""
        return self.row_cost_s or self.model.row_s

    @property
    def peak_rows_per_s(self) -> float:
        return PEAK_BUSY * self.peak_executors * self.slots_per_executor / self.row_s

    def executors_for(self, rows_per_s: float) -> int:
        """The smallest pool that can sustain this rate indefinitely."""
        busy = rows_per_s * self.row_s / self.slots_per_executor
        return min(self.max_executors, max(1, math.ceil(busy / _MOST_BUSY - 1e-9)))

    def application(self, load: LoadProfile) -> SimApplication:
        tasks = self.max_executors * self.slots_per_executor
        return self.model.application(APPLICATION, load, self.interval_s, tasks)

    def cluster(self, load: LoadProfile, executors: int, seed: int) -> SimCluster:
        """The plant at the start of a run."""
        return SimCluster(
            [self.application(load)],
            executors,
            self.slots_per_executor,
            startup_s=self.startup_s,
            warmup_s=self.warmup_s,
            warmup_speed=self.warmup_speed,
            max_executors=self.max_executors,
            seed=seed,
        )

    def policy(self, **others: Any) -> Policy:
        """Everything that Tidegate is told: the objective and the bounds. `others`: where the journal is, the mode."""
        return Policy.model_validate(
            {
                "objective": {"latency_s": self.objective_s, "percentile": 1 - self.allowed_late},
                "executors": {"min": 1, "max": self.max_executors},
                **others,
            }
        )


_MOST_BUSY = 0.97  # beyond this, the fixed cost of batches leaves no time for rows within the objective
