"""What one step of predictive control costs on a host of 400 to 10 000 applications: forecast, model and optimiser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.experiments.qos_figures import draw_cost
from tidegate.experiments.qos_world import RULES, Told, tenants
from tidegate.forecast import ArimaBank
from tidegate.planning.mpc import PredictiveControl

SIZES = (400, 1000, 4000, 10_000)
_STEPS, _WARM = 250, 50
_CPUS = 8.0
_OVERLOAD = 1.2


def run(seed: int = 1, out: Path | None = None, told: Told | None = None, steps: int = _STEPS) -> dict[str, Any]:
    """The step in CPU milliseconds of its one thread (`step_ms`), and on the clock (`wall_ms`), host saturated."""
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
    """The same step again and again: overloaded, so that the optimiser has work in every one of them."""
    random = np.random.default_rng([seed, applications])
    of = tenants(applications, 1, _CPUS, _OVERLOAD, 100.0, seed)
    control = PredictiveControl(ArimaBank(applications, 5), RULES, of.group, _CPUS)
    cpu_ms, wall_ms = [], []
    for number in range(_WARM + steps):
        arrived = random.poisson(100 + 20 * np.sin(number / 5), applications).astype(np.float64)
        backlog = random.poisson(20 + 60 * (of.group == 2), applications).astype(np.float64)
        wall, cpu = time.perf_counter(), time.thread_time()
        control.step(arrived, backlog, of.row_s)
        cpu_ms.append(1e3 * (time.thread_time() - cpu))
        wall_ms.append(1e3 * (time.perf_counter() - wall))
    return {
        "applications": applications,
        "step_ms_p50": float(np.percentile(cpu_ms[_WARM:], 50)),
        "step_ms_p99": float(np.percentile(cpu_ms[_WARM:], 99)),
        "wall_ms_p50": float(np.percentile(wall_ms[_WARM:], 50)),
        "wall_ms_p99": float(np.percentile(wall_ms[_WARM:], 99)),
    }
