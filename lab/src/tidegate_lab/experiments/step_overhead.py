"""The cost of one step of the live controller with 400 to 10 000 applications: observation in, decision out.

Every application has a new batch in every step and belongs to one of three classes. Most stay inside their band; one in
a hundred leaves it, because its arrivals have just tripled.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tidegate.control.controller import Controller
from tidegate.domain import (
    ActionReceipt,
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    ExecutorPool,
    ExecutorSample,
    LatencySample,
    Observation,
    OperatorSample,
    Outcome,
    Receipt,
    SetAdmission,
)
from tidegate.domain.policy import Policy
from tidegate_lab.experiments.class_world import CLASSES, Told
from tidegate_lab.experiments.qos_figures import draw_cost

SIZES = (400, 1000, 4000, 10_000)
_STEPS, _WARM = 60, 40
_SLOTS_EACH, _PER_SLOT = 4, 50
"""Slots of an executor, and applications for each slot."""
_BUSY = 0.6
_LEAVING = 100
"""One in this many applications has left its band."""


def run(seed: int = 1, out: Path | None = None, told: Told | None = None, steps: int = _STEPS) -> dict[str, Any]:
    """The step in CPU milliseconds of the process (`step_ms`), and on the clock (`wall_ms`)."""
    rows = []
    for index, size in enumerate(SIZES):
        if told:
            told(index, len(SIZES), f"{size} applications")
        rows.append(measure(size, seed, steps))
    if told:
        told(len(SIZES), len(SIZES), "done")
    document: dict[str, Any] = {"interval_s": 1.0, "steps": rows, "seed": seed}
    if out is not None:
        document["figures"] = [str(draw_cost(rows, out / "step-overhead.png"))]
    return document


def measure(applications: int, seed: int, steps: int) -> dict[str, float]:
    """Measure repeated steps of one controller: learning, forecasting, planning and guards."""
    controller = Controller(policy(applications))
    limits: dict[str, int | None] = {}
    cpu_ms, wall_ms, rolled_out = [], [], []
    for number, observation in enumerate(observations(applications, seed, _WARM + steps, limits)):
        wall, cpu = time.perf_counter(), time.process_time()
        decision = controller.step(observation)
        cpu_ms.append(1e3 * (time.process_time() - cpu))
        wall_ms.append(1e3 * (time.perf_counter() - wall))
        limits |= {one.application: one.rows_per_trigger for one in decision.actions if isinstance(one, SetAdmission)}
        controller.learn(decision, Receipt(tuple(ActionReceipt(one, Outcome.DONE) for one in decision.actions)))
        if number >= _WARM:
            rolled_out.append(decision.rolled_out)
    return {
        "applications": applications,
        "step_ms_p50": float(np.percentile(cpu_ms[_WARM:], 50)),
        "step_ms_p99": float(np.percentile(cpu_ms[_WARM:], 99)),
        "wall_ms_p50": float(np.percentile(wall_ms[_WARM:], 50)),
        "wall_ms_p99": float(np.percentile(wall_ms[_WARM:], 99)),
        "rolled_out": float(np.mean(rolled_out)),
    }


def policy(applications: int) -> Policy:
    """Return a policy with three classes and a pool at its maximum, without tuning."""
    names = list(CLASSES)
    members = {f"app-{number}": {"class": names[number % len(names)]} for number in range(applications)}
    executors = {"max": _executors(applications)}
    return Policy.model_validate({"classes": CLASSES, "applications": members, "executors": executors})


def _executors(applications: int) -> int:
    return max(2, applications // (_SLOTS_EACH * _PER_SLOT))


def observations(applications: int, seed: int, steps: int, limits: Mapping[str, int | None]) -> Iterator[Observation]:
    """One observation a second, with a batch of every application; others leave their band every ten seconds.

    `limits` are the admission limits in force.
    """
    random = np.random.default_rng([seed, applications])
    rate = random.lognormal(3.0, 0.5, applications)
    executors = _executors(applications)
    slots = _SLOTS_EACH * executors
    row_s = _BUSY * slots / (applications * rate)
    members = tuple(ExecutorSample(str(number), "host", _SLOTS_EACH, 0, 0.0) for number in range(executors))
    pool = ExecutorPool(members, requested=executors, slots_per_executor=_SLOTS_EACH)
    arrived = np.zeros(applications)
    for step in range(steps):
        time_s = 1000.0 + step
        leaving = np.arange(applications) % _LEAVING == (step // 10) % _LEAVING
        rows = 1 + random.poisson(rate * np.where(leaving, 3.0, 1.0))
        arrived += rows
        busy_s = rows * row_s * random.lognormal(0.0, 0.05, applications)
        middle_s = random.uniform(0.3, 0.7, applications)
        cells = zip(rows.tolist(), busy_s.tolist(), middle_s.tolist(), arrived.astype(int).tolist(), strict=True)
        samples = tuple(
            _sample(f"app-{number}", step, time_s, _Cell(*values), limits) for number, values in enumerate(cells)
        )
        yield Observation(time_s, samples, pool)


class _Cell(NamedTuple):
    """What happened at an application in a second: rows, their work, their median latency, all arrivals so far."""

    rows: int
    busy_s: float
    middle_s: float
    arrived: int


def _sample(name: str, step: int, time_s: float, cell: _Cell, limits: Mapping[str, int | None]) -> ApplicationSample:
    rows, busy_s, middle_s, arrived = cell
    operator = OperatorSample("work", 8, rows, busy_s, busy_s, 0.0, 0.4, rows)
    latency = LatencySample(rows, middle_s, 1.5 * middle_s, 2.0 * middle_s, 2.2 * middle_s)
    batch = BatchSample(step, time_s - 0.9, 0.5, rows, busy_s, 0.1, 0, latency, (operator,))
    return ApplicationSample(
        name, (batch,), time_s - 0.4, 1.0, gated=True, admission_rows=limits.get(name),
        arrival=ArrivalSample(time_s, arrived),
    )  # fmt: skip
