"""A ridge regression that learns one sample at a time, forgets slowly, and predicts the requested step directly.

With features x_t that are differences from the last sample y_t,

    θ = argmin Σ_i λ^(t−i) w_i (y_(i+h) − y_i − θ·x_i)² + ridge ‖θ‖²

with the weights w of Huber's loss. The normal equations are stored and solved again, instead of updating an inverse
(recursive least squares): the ridge stays in force however long nothing happens, and rounding errors do not accumulate,
so single precision is enough. One more sample in hundreds changes little, so outcomes are added a few at a time. Step h
is predicted directly, without iteration, so errors do not amplify themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast.rows import Floats, Ints, Singles

FORGETTING = 0.999
"""A memory of 1 000 samples."""
BATCH = 16
"""Maximum number of outcomes added at once."""
_BATCH_FROM = ((0, 1), (20, 2), (50, 4), (100, 8), (300, BATCH))
"""Number of outcomes added at once, by the number so far: the fit of a young stream changes quickly."""
_STARTS, _SIZES = (np.array(column) for column in zip(*_BATCH_FROM, strict=True))
HUBER = 3.0
SETTLED, PACE = 30, 0.005
"""Outcomes after which outliers are reduced, and how fast the error size then follows."""
LEAST_TAME, MOST_TAMED = 0.09, 25.0
"""Bounds of the reduced error: relative to the plain one, and of a square relative to it."""
_RIDGE = 1.0  # in samples of typical size
_RELATIVE_RIDGE = 0.001  # of each feature's own energy
_LEAST_RIDGE = 1e-30


class WeightedOutcomes(NamedTuple):
    """Outcomes to learn from: streams × samples, newest first."""

    x: Singles
    """Their features, in a third dimension."""
    target: Singles
    weights: Singles
    """0 where there is no outcome."""


def robust_weights(noise: Floats, error: Floats, outcomes: Floats) -> Floats:
    """Huber's weight of an outcome. Updates `noise`: the mean squared error with outliers reduced, and plain."""
    share = 1.0 / outcomes
    tame, plain = noise
    square = error * error
    settled = outcomes > SETTLED
    limit = HUBER * np.sqrt(np.maximum(tame, LEAST_TAME * plain))
    weights = np.where(settled, limit / np.maximum(np.maximum(np.abs(error), limit), 1e-300), 1.0)
    tamed = np.where(settled, np.minimum(square, MOST_TAMED * tame + 1e-300), square)
    tame += np.maximum(PACE, share) * (tamed - tame)
    plain += share * (square - plain)
    return weights


def batch_size(outcomes: Floats) -> Ints:
    """
    >>> batch_size(np.array([5.0, 50.0, 5000.0])).tolist()
    [1, 4, 16]
    """
    found: Ints = _SIZES[_STARTS.searchsorted(outcomes, side="right") - 1]
    return found


def absorb(grams: Singles, moments: Singles, rows: Ints, outcomes: WeightedOutcomes, energy: Floats) -> Singles:
    """Add outcomes of the streams `rows` and solve for their coefficients.

    Grams and moments are those of all streams; `energy` is the mean square of a feature. Returns θ, streams × features.
    """
    x, target, weights = outcomes
    counted = weights > 0
    since: Ints = np.cumsum(counted, axis=1) - counted  # an outcome fades once for each later one
    weighted = weights * np.power(FORGETTING, since).astype(np.float32)
    faded = np.power(FORGETTING, counted.sum(axis=1)).astype(np.float32)
    scaled = (x * weighted[:, :, None]).transpose(0, 2, 1)
    gram = grams[rows] * faded[:, None, None] + scaled @ x
    moment = moments[rows] * faded[:, None] + (scaled @ target[:, :, None])[:, :, 0]
    grams[rows], moments[rows] = gram, moment
    diagonal = np.arange(x.shape[2])
    ridge = (_RIDGE * energy + _LEAST_RIDGE)[:, None]
    gram[:, diagonal, diagonal] = gram[:, diagonal, diagonal] * (1.0 + _RELATIVE_RIDGE) + ridge
    theta: Singles = np.linalg.solve(gram, moment[:, :, None])[:, :, 0]
    return theta
