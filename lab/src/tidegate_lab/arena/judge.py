"""Judges runs: does a rival hold the objective, what does it cost, and how well does the size follow the need?

Elasticity follows SPEC's Research Group (Herbst et al., 2016). Accuracy is the area between need and pool, in executors
on average, separately for under- and over-provisioning. The time share is how long either lasted. Instability is the
share of time in which the pool moves and the need does not, or the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.play import Run
from tidegate_lab.arena.setting import Setting

STATIC, ORACLE, TIDEGATE = "static-holds", "oracle", "tidegate"
_SAMPLE_S = 20.0


@dataclass(frozen=True, slots=True)
class Elasticity:
    """Executors on average, and shares of the time."""

    under: float
    over: float
    under_share: float
    over_share: float
    instability: float


def elasticity(run: Run, load: ArenaLoad, setting: Setting) -> Elasticity:
    """The need is the pool that could sustain the current rate indefinitely."""
    times_s = np.arange(0.0, run.duration_s, _SAMPLE_S)
    rates = load.rates(setting.peak_rows_per_s)
    at = np.minimum(len(rates) - 1, (times_s / load.played_step_s).astype(np.int64))
    need = np.array([setting.executors_for(float(rate)) for rate in rates])[at]
    since = np.array([time_s for time_s, _ in run.sizes])
    have = np.array([count for _, count in run.sizes])[np.searchsorted(since, times_s, side="right") - 1]
    short, extra = np.maximum(0, need - have), np.maximum(0, have - need)
    apart = np.sign(np.diff(have)) != np.sign(np.diff(need))
    return Elasticity(
        under=float(short.mean()),
        over=float(extra.mean()),
        under_share=float((short > 0).mean()),
        over_share=float((extra > 0).mean()),
        instability=float(apart.mean()) if len(apart) else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A rival over all its runs."""

    holds: int
    runs: int
    cost_vs_static: float | None
    cost_vs_oracle: float | None
    late_mean: float
    late_worst: float
    changes_per_hour: float

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def holds(run: Run, setting: Setting) -> bool:
    return run.late <= setting.allowed_late


def summarise(runs: Sequence[Run], setting: Setting) -> dict[str, Summary]:
    """By rival, in the order of the runs. Costs are ratios to the same load and seed, then averaged."""
    known = {(run.rival, run.load, run.seed): run for run in runs}
    found = {}
    for rival in dict.fromkeys(run.rival for run in runs):
        own = [run for run in runs if run.rival == rival]
        found[rival] = Summary(
            holds=sum(holds(run, setting) for run in own),
            runs=len(own),
            cost_vs_static=_mean_ratio(own, STATIC, known),
            cost_vs_oracle=_mean_ratio(own, ORACLE, known),
            late_mean=mean(run.late for run in own),
            late_worst=max(run.late for run in own),
            changes_per_hour=sum(run.changes for run in own) / sum(run.duration_s for run in own) * 3600,
        )
    return found


def _mean_ratio(runs: Sequence[Run], against: str, known: dict[tuple[str, str, int], Run]) -> float | None:
    ratios = [
        run.executor_seconds / known[(against, run.load, run.seed)].executor_seconds
        for run in runs
        if (against, run.load, run.seed) in known
    ]
    return mean(ratios) if ratios else None


def best_of(runs: Sequence[Run], setting: Setting) -> Run:
    """The cheapest run that holds the objective. If none does, the one with the fewest rows over the objective."""
    holding = [run for run in runs if holds(run, setting)]
    if holding:
        return min(holding, key=lambda run: run.executor_seconds)
    return min(runs, key=lambda run: (run.late, run.executor_seconds))
