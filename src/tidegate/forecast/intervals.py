"""Intervals that hold what they promise: adaptive conformal inference over scaled errors, both tails on their own.

The bounds are quantiles of past errors in units of a running error size, so that they widen when a stream gets rough.
Each quantile is followed online, up by a step when it was exceeded, down a little when not, towards a share of α_t ÷ 2.
α_t itself is steered by all misses, α_(t+1) = α_t + γ (α − miss_t) (Gibbs & Candès 2021), so that the long-run share of
misses is α whatever the distribution, also where one tail cannot be missed (a floor at 0).
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.forecast.jit import Floats, kernel

BELOW, ABOVE, QUICK, SLOW, MISSES = range(5)
"""Columns of a stream's state: two quantiles, two running error sizes, α_t."""
_STEP = 0.1
_STEER = 0.002
_QUICK, _SLOW = 0.97, 0.998


def empty_intervals(streams: int, coverage: float) -> Floats:
    state = np.zeros((streams, 5))
    state[:, [BELOW, ABOVE]] = 3.0  # near the Gaussian's 1.645 ÷ 0.8 mean absolute errors, for 90 %
    state[:, MISSES] = 1 - coverage
    return state


@kernel
def reach(state: Floats) -> float:
    """The error size that quantiles are counted in."""
    return float(0.5 * (state[QUICK] + state[SLOW]))


@kernel
def calibrate(
    state: Floats, value: float, mean: float, lower: float, upper: float, unit: float, alpha: float, ahead: int,
    samples: int,
) -> None:  # fmt: skip
    """Learn from what came of an interval that was issued `ahead` samples ago in units of `unit`.

    Misses are counted against the bounds as issued: their share then differs from its target by no more than log(last ÷
    first quantile) ÷ (samples × step), whatever comes. Far ahead misses come in long runs, so steps are smaller there.
    """
    error = value - mean
    calm = 1.0 / (1.0 + (ahead - 1) / 12.0)
    if unit > 0.0:
        step = _STEP * calm * max(1.0, 5.0 / math.sqrt(samples))
        target = 0.5 * state[MISSES]
        above = 1.0 if value > upper else 0.0
        below = 1.0 if value < lower else 0.0
        state[ABOVE] = min(max(state[ABOVE] * math.exp(step * (above - target)), 1e-3), 1e3)
        state[BELOW] = min(max(state[BELOW] * math.exp(step * (below - target)), 1e-3), 1e3)
        state[MISSES] = min(max(state[MISSES] + _STEER * (alpha - above - below), 0.5 * alpha), 2.0 * alpha)
    size = abs(error)
    state[QUICK] += max((1.0 - _QUICK) * calm, 1.0 / samples) * (size - state[QUICK])
    state[SLOW] += max(1.0 - _SLOW, 1.0 / samples) * (size - state[SLOW])
