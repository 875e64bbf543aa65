"""The cost of a wrong forecast: errors of 10 to 50 % injected into a perfect one, compared with no forecast.

The upper classes surge together, at times that a forecast can know, and the pool is short in every surge. The
controller is the production one, on the simulated micro-batch cluster; only its forecast differs. It uses admission
limits and shares. With shares alone, which leave no slot idle, forecasts matter less; those figures are in `weights`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tidegate.adapters.sim.latencybins import Latencies
from tidegate.control.controller import Controller
from tidegate.evaluate.forecast.arrivals import ArrivalForecaster, ArrivalPaths, Recent
from tidegate.evaluate.table import Floats
from tidegate.load import Constant, LoadProfile, Spikes, Sum
from tidegate_lab.experiments.class_world import CLASSES, Run, Told, World, play, world
from tidegate_lab.experiments.qos_figures import draw_sensitivity

ERRORS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
COMMON = (0.0, 0.1, 0.3, 0.5)
SAMPLES = 3
_APPLICATIONS, _SLOTS, _BUSY, _RATE = 30, 8, 0.6, 100.0
_MEASURED = (60.0, 180.0)
_UNTIL_S = 210.0
_SURGE = 4.0

Build = Callable[[World, int], ArrivalForecaster]
"""Creates the controller's forecaster for one sample of a world."""


class Blind(ArrivalForecaster):
    """No forecast: only current rates are known."""

    def path(
        self, applications: ArrayLike, horizon_s: float, step_s: float, recent: Recent | None = None
    ) -> ArrivalPaths:
        unknown = np.full((len(np.asarray(applications)), max(1, round(horizon_s / step_s))), np.nan)
        return ArrivalPaths(unknown, unknown, unknown, np.zeros(unknown.shape, dtype=np.bool_))


class Erring(ArrivalForecaster):
    """Knows the future rates, multiplied by an error `1 + ε` with mean |ε| = `error`, drawn in every step.

    Errors are independent for each application, or the same for all (`common`).
    """

    def __init__(self, profiles: Mapping[str, LoadProfile], error: float, common: bool, seed: int) -> None:
        super().__init__()
        self._profiles, self._error, self._common = profiles, error, common
        self._random = np.random.default_rng(seed)
        self._factor: Floats = np.ones(0)
        self._seen_names: tuple[str, ...] = ()

    def tell(self, now_s: float, names: Sequence[str], arrived_rows: ArrayLike, near_from: int = 0) -> None:
        self._now_s, self._seen_names = now_s, tuple(names)
        deviation = self._error * np.sqrt(np.pi / 2)  # a normal error of mean size `error`
        drawn = self._random.standard_normal(1 if self._common else len(names)) * np.ones(len(names))
        self._factor = np.maximum(1 + deviation * drawn, 0.0)

    def path(
        self, applications: ArrayLike, horizon_s: float, step_s: float, recent: Recent | None = None
    ) -> ArrivalPaths:
        places = np.asarray(applications, dtype=np.int64)
        edges_s = self._now_s + np.arange(max(1, round(horizon_s / step_s)) + 1, dtype=np.float64) * step_s
        known: dict[LoadProfile, Floats] = {}
        rows = []
        for place in places.tolist():
            profile = self._profiles[self._seen_names[place]]
            if profile not in known:
                known[profile] = _mean_rates(profile, edges_s)
            rows.append(known[profile] * self._factor[place])
        mean = np.array(rows).reshape(len(places), len(edges_s) - 1)
        return ArrivalPaths(mean, mean, mean, np.ones(mean.shape, dtype=np.bool_))


def _mean_rates(profile: LoadProfile, edges_s: Floats) -> Floats:
    """The true mean rate in each step."""
    parts = 8
    inside_s = (np.arange(parts) + 0.5) / parts
    at_s = edges_s[:-1, None] + np.diff(edges_s)[:, None] * inside_s
    return np.asarray(profile.rows_per_s(at_s.ravel()).reshape(at_s.shape).mean(axis=1))


@dataclass(frozen=True, slots=True)
class Outcome:
    """p99 of all rows, the share over the objective, and both by class; means over the samples."""

    p99_s: float
    violations: float
    classes: dict[str, dict[str, float]]


def run(seed: int = 1, out: Path | None = None, told: Told | None = None, samples: int = SAMPLES) -> dict[str, Any]:
    """The curve over errors of either kind, the controller without a forecast, and Tidegate's forecaster."""
    jobs: dict[str, tuple[bool, Build]] = {
        **{f"own {error}": (True, _erring(error, common=False)) for error in ERRORS},
        **{f"common {error}": (True, _erring(error, common=True)) for error in COMMON[1:]},
        "reactive": (True, lambda of, sample: Blind()),
        "arima": (True, lambda of, sample: ArrivalForecaster()),
        "weights 0.0": (False, _erring(0.0, common=False)),
        "weights 0.5": (False, _erring(0.5, common=False)),
        "weights reactive": (False, lambda of, sample: Blind()),
    }
    outcomes = {}
    for index, (name, (admission, build)) in enumerate(jobs.items()):
        if told:
            told(index, len(jobs), name)
        outcomes[name] = _mean([outcome(seed + sample, admission, build) for sample in range(samples)])
    if told:
        told(len(jobs), len(jobs), "done")
    exact = outcomes["common 0.0"] = outcomes["own 0.0"]
    document: dict[str, Any] = {
        "samples": samples,
        "seed": seed,
        "errors": [{"error": error, **_against(outcomes[f"own {error}"], exact)} for error in ERRORS],
        "common": [{"error": error, **_against(outcomes[f"common {error}"], exact)} for error in COMMON],
        "reactive": _against(outcomes["reactive"], exact),
        "arima": _against(outcomes["arima"], exact),
        "weights": {
            name: _against(outcomes[f"weights {name}"], outcomes["weights 0.0"]) for name in ("0.0", "0.5", "reactive")
        },
    }
    if out is not None:
        document["figures"] = [str(draw_sensitivity(document, out / "sensitivity.png"))]
    return document


def surging() -> Mapping[str, LoadProfile]:
    """q1 and q2 surge for 12 s in every minute, q2 6 s after q1: for 6 s both do."""
    more = (_SURGE - 1) * _RATE
    return {
        "q1": Sum((Constant(_RATE), Spikes(more, every_s=60.0, width_s=12.0, first_s=40.0))),
        "q2": Sum((Constant(_RATE), Spikes(more, every_s=60.0, width_s=12.0, first_s=46.0))),
        "q3": Constant(_RATE),
    }


def _erring(error: float, common: bool) -> Build:
    def build(of: World, sample: int) -> ArrivalForecaster:
        return Erring({job.name: job.profile for job in of.jobs}, error, common, sample)

    return build


def outcome(seed: int, admission: bool, build: Build) -> Outcome:
    """Run once under the controller with the forecaster from `build`."""
    of = world(_APPLICATIONS, _SLOTS, _BUSY, _RATE, surging(), seed)
    controller = Controller(of.policy(knobs={"admission": admission}))
    controller.knowledge.evaluation.arrivals = build(of, seed)
    return _summary(play(of, _UNTIL_S, controller))


def _summary(played: Run) -> Outcome:
    late, every = 0.0, Latencies.empty()
    for name, rule in CLASSES.items():
        latencies = played.latencies(name, *_MEASURED)
        late += latencies.rows * (latencies.late_share(rule["latency_s"]) or 0.0)
        every = every.merge(latencies)
    return Outcome(every.quantile_s(0.99) or 0.0, late / every.rows, played.by_class(*_MEASURED))


def _mean(outcomes: list[Outcome]) -> Outcome:
    classes = {
        name: {key: float(np.mean([each.classes[name][key] for each in outcomes])) for key in ("p99_s", "violations")}
        for name in outcomes[0].classes
    }
    return Outcome(
        float(np.mean([each.p99_s for each in outcomes])),
        float(np.mean([each.violations for each in outcomes])),
        classes,
    )


def _against(outcome: Outcome, exact: Outcome) -> dict[str, Any]:
    """Return the relative change of p99 and the change of violations in percentage points."""
    return {
        "p99_change": outcome.p99_s / exact.p99_s - 1,
        "violation_change": 100 * (outcome.violations - exact.violations),
        "p99_s": outcome.p99_s,
        "violations": outcome.violations,
        "classes": outcome.classes,
    }
