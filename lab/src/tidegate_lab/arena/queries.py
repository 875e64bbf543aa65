"""The queries as the plant sees them: stages, the cost of a row in each, and the fixed cost of a batch.

The shapes are those of Nexmark's queries on Spark: one stage if rows are only mapped or filtered, and a second one
behind an exchange if keys meet in state. Query 1 costs a round 1 ms per row and 0.3 s per batch, because the unit of
the arena is the size of a pool. The others have the proportions that `benchmarks/nexmark_costs.py` measured on Spark
4.3, on two cores and with events from text files: slot-seconds per source row, and the fixed time of a short batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.adapters.sim import SimApplication, SimOperator
from tidegate.load import LoadProfile


@dataclass(frozen=True, slots=True)
class QueryStage:
    """Slot-seconds per row that enters the stage, and rows that leave it per row that enters."""

    name: str
    cost_s_per_row: float
    selectivity: float = 1.0
    stateful: bool = False
    state_keys: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its costs.

    >>> round(QUERIES["q3"].row_s * 1e3, 3)  # a row passes both stages with its share
    1.3
    """

    stages: tuple[QueryStage, ...]
    overhead_s: float

    @property
    def row_s(self) -> float:
        """Slot-seconds per source row, in all stages."""
        total_s, share = 0.0, 1.0
        for stage in self.stages:
            total_s += share * stage.cost_s_per_row
            share *= stage.selectivity
        return total_s

    @property
    def stateful(self) -> bool:
        return any(stage.stateful for stage in self.stages)

    def application(self, name: str, load: LoadProfile, interval_s: float, tasks: int) -> SimApplication:
        """The query in the simulator: its source accepts a live admission limit, and it is never restarted."""
        operators = tuple(
            SimOperator(
                stage.name,
                stage.cost_s_per_row,
                parallelism=tasks,
                selectivity=stage.selectivity,
                stateful=stage.stateful,
                state_keys=stage.state_keys,
            )
            for stage in self.stages
        )
        return SimApplication(
            name, load, interval_s=interval_s, overhead_s=self.overhead_s, operators=operators, restartable=False
        )


QUERIES: dict[str, Query] = {
    "q1": Query((QueryStage("currency", 0.001),), overhead_s=0.3),
    "q2": Query((QueryStage("filter", 0.00065),), overhead_s=0.3),
    "q3": Query(
        (
            QueryStage("filter", 0.00098, selectivity=0.08),
            QueryStage("join", 0.004, stateful=True, state_keys=200_000),
        ),
        overhead_s=0.6,
    ),
    "q5": Query(
        (
            QueryStage("window", 0.0029, selectivity=1.0),
            QueryStage("hot-items", 0.00066, stateful=True, state_keys=50_000),
        ),
        overhead_s=0.8,
    ),
    "q8": Query(
        (
            QueryStage("split", 0.0011, selectivity=0.08),
            QueryStage("join", 0.0019, stateful=True, state_keys=50_000),
        ),
        overhead_s=0.8,
    ),
    "q11": Query(
        (
            QueryStage("key", 0.0017, selectivity=0.92),
            QueryStage("sessions", 0.0013, stateful=True, state_keys=50_000),
        ),
        overhead_s=0.4,
    ),
}
