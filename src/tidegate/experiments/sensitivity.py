"""How much a wrong forecast costs: errors of 10 to 50 % injected into a perfect one, and no forecast at all beside it.

The upper classes surge together, at times that a forecast can know, and the host is short in every surge. The
controller acts by caps, as the paper's does (and as admission limits do): what is held back is held back for a whole
interval, so it matters what was expected of it. With CPU weights, which leave nothing idle, forecasts hardly matter:
those figures are in `weights`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tidegate.experiments.qos_figures import draw_sensitivity
from tidegate.experiments.qos_world import RULES, PredictiveSharing, Told, by_class, summed, tenants
from tidegate.forecast import ArimaBank, Forecast, Forecaster
from tidegate.sim.shared import Interval, SharedHosts, Tenants
from tidegate.sim.state import Floats, Ints

ERRORS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
COMMON = (0.0, 0.1, 0.3, 0.5)
SAMPLES = 3
_APPLICATIONS, _CPUS, _BUSY = 500, 8.0, 0.75
_MEASURED = (40.0, 120.0)
_SURGE = 2.5

Build = Callable[[Ints, int], Forecaster]


class LastValue:
    """No forecast: what was is what will be."""

    def __init__(self, streams: int, horizon: int) -> None:
        self.streams, self.horizon = streams, horizon
        self._last = np.zeros(streams)

    def observe(self, values: ArrayLike) -> None:
        self._last = np.asarray(values, dtype=np.float64)

    def forecast(self) -> Forecast:
        return _path(np.repeat(self._last[:, None], self.horizon, axis=1))


class Erring:
    """Knows the rates to come, and is wrong by a factor `1 + ε` with mean |ε| = `error`, drawn anew in every step.

    Each stream errs by itself, or all alike (`common`).
    """

    def __init__(
        self, rates: Callable[[float], Floats], members: Ints, horizon: int, error: float, common: bool, seed: int
    ) -> None:
        self.streams, self.horizon = len(members), horizon
        self._rates, self._members, self._error, self._common = rates, members, error, common
        self._random = np.random.default_rng(seed)
        self._step = 0

    def observe(self, values: ArrayLike) -> None:
        """It needs not look."""

    def forecast(self) -> Forecast:
        true = np.stack([self._rates(self._step + k)[self._members] for k in range(self.horizon)], axis=1)
        self._step += 1
        deviation = self._error * np.sqrt(np.pi / 2)  # a normal error of mean size `error`
        factor = 1 + deviation * self._random.standard_normal(1 if self._common else self.streams)
        return _path(true * np.maximum(factor, 0.0)[:, None])


def _path(mean: Floats) -> Forecast:
    return Forecast(mean, mean, mean, np.ones(len(mean), dtype=np.bool_))


@dataclass(frozen=True, slots=True)
class Outcome:
    """p99 of all rows, the share of late ones, and both by class; means over the samples."""

    p99_s: float
    violations: float
    classes: dict[str, dict[str, float]]


def run(seed: int = 1, out: Path | None = None, told: Told | None = None, samples: int = SAMPLES) -> dict[str, Any]:
    """The curve over errors of either kind, the controller without a forecast, and the forecaster that ships."""
    jobs: dict[str, tuple[Literal["weights", "caps"], Callable[[Callable[[float], Floats], int], Build]]] = {
        **{f"own {error}": ("caps", _erring(error, common=False)) for error in ERRORS},
        **{f"common {error}": ("caps", _erring(error, common=True)) for error in COMMON[1:]},
        "reactive": ("caps", lambda rates, sample: lambda members, horizon: LastValue(len(members), horizon)),
        "arima": ("caps", lambda rates, sample: lambda members, horizon: ArimaBank(len(members), horizon)),
        "weights 0.0": ("weights", _erring(0.0, common=False)),
        "weights 0.5": ("weights", _erring(0.5, common=False)),
        "weights reactive": (
            "weights",
            lambda rates, sample: lambda members, horizon: LastValue(len(members), horizon),
        ),
    }
    outcomes = {}
    for index, (name, (actuator, build)) in enumerate(jobs.items()):
        if told:
            told(index, len(jobs), name)
        outcomes[name] = _mean([_outcome(seed + sample, sample, actuator, build) for sample in range(samples)])
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


def surging(of: Tenants) -> Callable[[float], Floats]:
    """q1 surges for 4 s in every 20, q2 for 5 s in every 30."""

    def rates(time_s: float) -> Floats:
        factor = np.ones(len(of.group))
        factor[of.group == 0] = _SURGE if time_s % 20 >= 16 else 1.0
        factor[of.group == 1] = _SURGE if time_s % 30 >= 25 else 1.0
        return 100 * factor

    return rates


def _erring(error: float, common: bool) -> Callable[[Callable[[float], Floats], int], Build]:
    return lambda rates, sample: lambda members, horizon: Erring(rates, members, horizon, error, common, sample)


def _outcome(
    seed: int,
    sample: int,
    actuator: Literal["weights", "caps"],
    build: Callable[[Callable[[float], Floats], int], Build],
) -> Outcome:
    of = tenants(_APPLICATIONS, 1, _CPUS, _BUSY, 100.0, seed)
    rates = surging(of)
    policy = PredictiveSharing(of, 1, _CPUS, build(rates, sample), actuator=actuator)
    record = SharedHosts(of, 1, _CPUS, step_s=0.02, seed=seed).run(rates, policy, _MEASURED[1])
    return _summary(record)


def _summary(record: list[Interval]) -> Outcome:
    latencies = [summed(record, group, *_MEASURED) for group in range(len(RULES))]
    shares = [each.late_share(rule.latency_s) or 0.0 for each, rule in zip(latencies, RULES, strict=True)]
    late = sum(each.rows * share for each, share in zip(latencies, shares, strict=True))
    every = latencies[0].merge(latencies[1]).merge(latencies[2])
    return Outcome(every.quantile_s(0.99) or 0.0, late / every.rows, by_class(record, *_MEASURED))


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
    """Relative change of p99; change of late rows in percentage points."""
    return {
        "p99_change": outcome.p99_s / exact.p99_s - 1,
        "violation_change": 100 * (outcome.violations - exact.violations),
        "p99_s": outcome.p99_s,
        "violations": outcome.violations,
        "classes": outcome.classes,
    }
