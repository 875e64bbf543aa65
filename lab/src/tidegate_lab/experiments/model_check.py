"""Does the model predict what it has not seen? p99 of rows, predicted and measured, over many configurations.

The costs of a batch and a row are learned from one run with a different rate, interval and number of tasks. Then every
configuration is predicted with the planners' model and run. Nothing is learned in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil
from statistics import median
from typing import Any, Protocol

import numpy as np

from tidegate.domain import EnvironmentUnfit, Observation
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.model.rollout import Candidate, Query, rollout
from tidegate.model.slotpath import effective_slots
from tidegate.plan.demand import query_of

SLOTS = 4
DURATION_S = 30.0
ROW_S = 0.008
SEEN_TASKS, SEEN_INTERVAL_S, SEEN_ROWS_PER_S = 3, 1.5, 120.0
"""The run that costs are learned from; no configuration is like it."""
_STEP_S = 0.5

Told = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, and the target utilisation of the slots that its tasks can use."""

    busy: float
    tasks: int
    interval_s: float


CONFIGURATIONS = tuple(
    Configuration(busy, tasks, interval_s)
    for tasks, interval_s, levels in (
        (4, 1.0, (0.3, 0.6, 0.85)),
        (4, 4.0, (0.4, 0.75, 1.0)),
        (2, 2.0, (0.35, 0.7, 0.95, 1.1)),
        (1, 3.0, (0.5, 0.8, 1.05)),
        (8, 2.0, (0.5, 0.9)),
    )
    for busy in levels
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration with what was predicted and what was measured."""

    tasks: int
    interval_s: float
    rows_per_s: float
    utilisation: float
    predicted_p99_s: float
    measured_p99_s: float
    error: float
    """|predicted − measured| / measured."""


class World(Protocol):
    """Where the configurations are run."""

    def observe(self, rows_per_s: float, tasks: int, interval_s: float) -> list[Observation]:
        """What is seen of a run, second by second."""

    def measure(self, rows_per_s: float, tasks: int, interval_s: float) -> float:
        """The 99th percentile of the latency of all rows that arrive within `DURATION_S`."""


def learn(seen: list[Observation]) -> Query:
    """Return the planners' model of the application after these observations, without a backlog."""
    evaluator = Evaluator(Policy(), EvaluationMemory())
    known = None
    for observation in seen:
        evaluation = evaluator.evaluate(observation)
        known = query_of(evaluation.of(0), evaluation.time_s) if evaluation.loads.known.any() else known
    if known is None:
        raise EnvironmentUnfit("nothing was learned from the first run: too few batches; is the machine busy?")
    return Query(
        batch_s=known.batch_s,
        row_s=known.row_s,
        overhead_s=known.overhead_s,
        interval_s=known.interval_s,
        objective_s=known.objective_s,
        tasks=known.tasks,
        work_share=known.work_share,
        residual=known.residual,
        cv_service=known.cv_service,
    )


def predict(query: Query, configuration: Configuration) -> tuple[float, float, float]:
    """Rows per second that keep it as busy as asked, utilisation, and the predicted p99."""
    narrow = int(np.argmax(query.work_share))
    tasks = tuple(configuration.tasks if at == narrow else count for at, count in enumerate(query.tasks))
    effective = float(effective_slots(np.array([float(SLOTS)]), tasks, query.work_share)[0])
    rows_per_s = round(configuration.busy * effective / query.row_s, 1)
    steps = ceil(DURATION_S / _STEP_S)
    candidate = Candidate(np.full(steps, float(SLOTS)), interval_s=configuration.interval_s, tasks=tasks)
    found = rollout(query, np.full(steps, rows_per_s), [candidate], steps * _STEP_S, _STEP_S)
    return rows_per_s, float(found.utilisation[0, 0]), float(found.p99_s[0, 0])


def run(world: World, told: Told, configurations: tuple[Configuration, ...] = CONFIGURATIONS) -> dict[str, Any]:
    """The document that `reproduce model-check --json` prints."""
    told(0, len(configurations) + 1, "learning")
    query = learn(world.observe(SEEN_ROWS_PER_S, SEEN_TASKS, SEEN_INTERVAL_S))
    checked = []
    for done, configuration in enumerate(configurations, start=1):
        told(done, len(configurations) + 1, f"{configuration.tasks} tasks, {configuration.busy:.0%} busy")
        rows_per_s, utilisation, predicted_s = predict(query, configuration)
        measured_s = world.measure(rows_per_s, configuration.tasks, configuration.interval_s)
        checked.append(
            Checked(
                tasks=configuration.tasks,
                interval_s=configuration.interval_s,
                rows_per_s=rows_per_s,
                utilisation=round(utilisation, 3),
                predicted_p99_s=round(predicted_s, 3),
                measured_p99_s=round(measured_s, 3),
                error=round(abs(predicted_s - measured_s) / measured_s, 3),
            )
        )
    return {
        "configurations": [asdict(one) for one in checked],
        "median_error": round(median(one.error for one in checked), 3),
    }
