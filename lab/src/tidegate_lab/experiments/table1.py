"""Table 1 of Melnik et al. 2018: sinusoidal operators packed on hosts of 500 rows per unit, by three schedulers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.placement import Problem, Schedule, pack, scheduler
from tidegate.placement.arrays import FloatArray
from tidegate.placement.bounds import load_bound
from tidegate.placement.figure import draw_schedule
from tidegate.placement.hostload import flatten
from tidegate_lab.experiments.paper_ga import PaperGA
from tidegate_lab.experiments.placement_figures import draw_closing, draw_convergence

CAPACITY = 500.0  # rows per unit of time, the peak of one host
SCHEDULERS = {"rstorm": "rstorm-cpu", "paper-ga": "paper-ga", "tidegate": "tidegate"}  # column → scheduler
Progress = Callable[[int, int, str], None]  # done, total, what comes next


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment of the table: how many operators and hosts, and the bounds of their random signals."""

    operators: int
    hosts: int
    baseline: tuple[float, float]
    amplitude: tuple[float, float]


ROWS = (
    Row(12, 9, (100, 200), (40, 60)),
    Row(50, 25, (100, 200), (40, 60)),
    Row(100, 50, (100, 200), (40, 60)),
    Row(200, 100, (100, 200), (40, 60)),
    Row(50, 25, (90, 150), (30, 80)),
    Row(100, 50, (90, 150), (30, 80)),
    Row(200, 100, (90, 150), (30, 80)),
)


@dataclass(frozen=True, slots=True)
class Family:
    """Periods and steps, which the paper leaves open; phases are uniform in both."""

    name: str
    period: tuple[float, float]
    steps: int


FAMILIES = (Family("common-period", (40, 40), 40), Family("mixed-period", (90, 360), 180))


def signals(row: Row, family: Family, rng: np.random.Generator) -> FloatArray:
    """`x(t) = a + b · sin(2πt/c + d)`, operators × steps."""
    shape = (row.operators, 1)
    baseline, amplitude = rng.uniform(*row.baseline, shape), rng.uniform(*row.amplitude, shape)
    period, phase = rng.uniform(*family.period, shape), rng.uniform(0, 2 * np.pi, shape)
    wave: FloatArray = baseline + amplitude * np.sin(2 * np.pi * np.arange(family.steps) / period + phase)
    return wave


def sample(row: Row, family: Family, rng: np.random.Generator) -> Problem:
    """One random instance of a row."""
    return Problem.from_arrays(signals(row, family, rng)[:, None, :], np.full((row.hosts, 1), CAPACITY))


def table1(samples: int = 20, seed: int = 1, progress: Progress | None = None) -> dict[str, Any]:
    """The table for both families; the same seed gives the same instances and, apart from seconds, the same figures."""
    _compile()
    total, done = len(FAMILIES) * len(ROWS) * samples, 0
    families: dict[str, list[dict[str, Any]]] = {}
    for f, family in enumerate(FAMILIES):
        families[family.name] = []
        for r, row in enumerate(ROWS):
            outcomes = []
            for s in range(samples):
                if progress:
                    progress(done, total, f"{family.name} {row.operators} × {row.hosts}")
                outcomes.append(_outcome(row, family, np.random.SeedSequence([seed, f, r, s])))
                done += 1
            families[family.name].append(_means(row, outcomes))
    if progress:
        progress(done, total, "done")
    return {"families": families, "samples": samples, "seed": seed}


@dataclass(frozen=True, slots=True)
class _Outcome:
    bound: int
    schedules: Mapping[str, Schedule]
    seconds: Mapping[str, float]

    @property
    def never_worse(self) -> bool:
        """Tidegate needs no more hosts than any rival's schedule without overload."""
        ours = self.schedules["tidegate"]
        return ours.feasible and all(
            ours.used_hosts <= rival.used_hosts for rival in self.schedules.values() if rival.feasible
        )


def _outcome(row: Row, family: Family, seed: np.random.SeedSequence) -> _Outcome:
    draw, *searches = seed.spawn(1 + len(SCHEDULERS))
    problem = sample(row, family, np.random.default_rng(draw))
    flat = flatten(problem)
    schedules, seconds = {}, {}
    for (column, name), search in zip(SCHEDULERS.items(), searches, strict=True):
        started = time.perf_counter()
        schedules[column] = scheduler(name).schedule(problem, np.random.default_rng(search))
        seconds[column] = time.perf_counter() - started
    return _Outcome(load_bound(flat.demand, flat.room), schedules, seconds)


def _means(row: Row, outcomes: list[_Outcome]) -> dict[str, Any]:
    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    return {
        "operators": row.operators,
        "hosts": row.hosts,
        "samples": len(outcomes),
        "lower_bound": mean([o.bound for o in outcomes]),
        "schedulers": {
            column: {
                "used_hosts": mean([o.schedules[column].used_hosts for o in outcomes]),
                "utility": mean([o.schedules[column].utilisation for o in outcomes]),
                "overload": mean([o.schedules[column].overload for o in outcomes]),
                "seconds": mean([o.seconds[column] for o in outcomes]),
            }
            for column in SCHEDULERS
        },
        "never_worse": all(o.never_worse for o in outcomes),
    }


def _compile() -> None:
    """Compile the kernels on a tiny instance, so that compilation is not measured."""
    problem = sample(ROWS[0], FAMILIES[0], np.random.default_rng(0))
    for name in SCHEDULERS.values():
        scheduler(name).schedule(problem, np.random.default_rng(0))


def figures(seed: int, out: Path) -> list[Path]:
    """A sample of the smallest row as R-Storm and Tidegate place it (the paper's Figures 6, 7), and the searches."""
    family, small, large = FAMILIES[0], ROWS[0], ROWS[3]
    problem = sample(small, family, np.random.default_rng([seed, 6]))
    drawn = [
        draw_schedule(
            problem,
            scheduler(SCHEDULERS[name]).schedule(problem, np.random.default_rng(seed)),
            out / f"schedule-{name}.png",
            title=name,
        )
        for name in ("rstorm", "tidegate")
    ]
    crowded = sample(large, family, np.random.default_rng([seed, 7]))
    history = PaperGA().evolve(crowded, np.random.default_rng(seed)).history
    packing = pack(crowded, np.random.default_rng(seed))
    return [
        *drawn,
        draw_convergence({"paper-ga, 200 × 100": history.tolist()}, out / "convergence-paper-ga.png"),
        draw_closing({"tidegate, 200 × 100": packing.progress}, packing.bound, out / "convergence-tidegate.png"),
    ]
