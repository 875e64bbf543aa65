"""Calibrated intervals: adaptive conformal inference over scaled errors, each tail by itself.

The bounds are quantiles of past errors in units of a running error size, so they widen when a stream gets rough. Each
quantile is tracked online, one step up when it was exceeded and a little down otherwise, towards a share of α_t ÷ 2.
α_t itself is adjusted by all misses, α_(t+1) = α_t + γ (α − miss_t) (Gibbs & Candès 2021), so that the long-run share
of misses is α whatever the distribution, even if one tail cannot be missed (a floor at 0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast.rows import Floats

BELOW, ABOVE, QUICK, SLOW, MISSES = range(5)
"""The state of a stream: two quantiles, two running error sizes, and α_t."""
STEP = 0.1
STEER = 0.002
QUICK_MEMORY, SLOW_MEMORY = 0.97, 0.998


class IssuedInterval(NamedTuple):
    """An interval as it was issued. Arrays over streams."""

    mean: Floats
    lower: Floats
    upper: Floats
    unit: Floats
    """The error size at that time, see `reach`."""


def first_interval(coverage: float) -> Floats:
    # Close to the Gaussian's 1.645 ÷ 0.8 mean absolute errors, for 90 %.
    return np.array([3.0, 3.0, 0.0, 0.0, 1 - coverage])


def reach(state: Floats) -> Floats:
    """The error size that serves as the unit of the quantiles."""
    return np.asarray(0.5 * (state[QUICK] + state[SLOW]))


def calibrate(state: Floats, value: Floats, issued: IssuedInterval, alpha: float, ahead: int, outcomes: Floats) -> None:
    """Learn (in `state`, columns × streams) from intervals issued `ahead` samples ago.

    Misses are counted against the bounds as issued. Their share then differs from its target by at most log(last ÷
    first quantile) ÷ (samples × step), whatever happens. Far ahead, misses come in long runs, so steps are smaller
    there.
    """
    calm = 1.0 / (1.0 + (ahead - 1) / 12.0)
    sized = issued.unit > 0.0
    share = 1.0 / outcomes
    step = sized * (STEP * calm) * np.maximum(1.0, 5.0 * np.sqrt(share))
    misses = state[MISSES]
    target = 0.5 * misses
    missed = np.array([value < issued.lower, value > issued.upper])
    tails = state[BELOW : ABOVE + 1]
    tails *= np.exp(step * (missed - target))
    np.minimum(np.maximum(tails, 1e-3), 1e3, out=tails)
    misses += sized * STEER * (alpha - missed[0] - missed[1])
    np.minimum(np.maximum(misses, 0.5 * alpha), 2.0 * alpha, out=misses)
    size = np.abs(value - issued.mean)
    state[QUICK] += np.maximum((1.0 - QUICK_MEMORY) * calm, share) * (size - state[QUICK])
    state[SLOW] += np.maximum(1.0 - SLOW_MEMORY, share) * (size - state[SLOW])
