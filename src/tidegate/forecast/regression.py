"""Ridge regressions that learn one sample at a time and forget slowly, straight for the step that is asked for.

With features x_t that are differences from the last sample y_t,

    θ = argmin Σ_i λ^(t−i) w_i (y_(i+h) − y_i − θ·x_i)² + ridge ‖θ‖²

the weights w of Huber's loss. The normal equations are kept and solved by Cholesky's method rather than carried as an
inverse (recursive least squares): as cheap at this size, the ridge stays in force however long nothing happens, and
rounding does not add up. Step h is predicted directly: nothing is iterated, so errors do not feed on themselves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegate.forecast.jit import Floats, kernel

FORGETTING = (0.9995, 0.997)
"""One regression each: with a memory of 2 000 samples and of 300."""
_HUBER = 3.0
_RIDGE = 1.0  # in samples of typical size
_RELATIVE_RIDGE = 0.001  # of each feature's own energy
_SOLVE_ALWAYS = 100  # outcomes until which all are solved every time; later one more changes little: they take turns


class Regressions(NamedTuple):
    """Arrays over streams × regressions; matrices are lower triangles, row by row."""

    gram: Floats
    moment: Floats
    theta: Floats
    noise: Floats
    """Mean squared error, outliers drawn in, and plain."""
    energy: Floats
    """Mean square of a feature, per stream."""


def empty_regressions(streams: int, features: int) -> Regressions:
    count = len(FORGETTING)
    return Regressions(
        gram=np.zeros((streams, count, features * (features + 1) // 2)),
        moment=np.zeros((streams, count, features)),
        theta=np.zeros((streams, count, features)),
        noise=np.zeros((streams, count, 2)),
        energy=np.zeros(streams),
    )


@kernel
def learn(regressions: Regressions, s: int, x: Floats, target: float, samples: int, factor: Floats) -> None:
    """Learn from features and what came of them, as the `samples`-th outcome of stream s; `factor` is scratch."""
    gram, moment, theta = regressions.gram, regressions.moment, regressions.theta
    noise, energy = regressions.noise, regressions.energy
    features = x.shape[0]
    total = 0.0
    for i in range(features):
        total += x[i] * x[i]
    energy[s] += max(0.001, 1.0 / samples) * (total / features - energy[s])
    for r in range(len(FORGETTING)):
        error = target
        for i in range(features):
            error -= theta[s, r, i] * x[i]
        tame, plain = noise[s, r, 0], noise[s, r, 1]
        weight, square = 1.0, error * error
        if samples > 30:
            limit = _HUBER * max(math.sqrt(tame), 0.3 * math.sqrt(plain))
            if abs(error) > limit:
                weight = limit / abs(error)
            square = min(square, 25.0 * tame + 1e-300)
        noise[s, r, 0] = tame + max(0.005, 1.0 / samples) * (square - tame)
        noise[s, r, 1] = plain + (error * error - plain) / samples
        fade, at = FORGETTING[r], 0
        for i in range(features):
            scaled = weight * x[i]
            moment[s, r, i] = fade * moment[s, r, i] + scaled * target
            for j in range(i + 1):
                gram[s, r, at + j] = fade * gram[s, r, at + j] + scaled * x[j]
            at += i + 1
        if samples < _SOLVE_ALWAYS or samples % len(FORGETTING) == r:
            _solve(gram[s, r], moment[s, r], _RIDGE * energy[s] + 1e-300, factor, theta[s, r])


@kernel
def _solve(gram: Floats, moment: Floats, ridge: float, factor: Floats, theta: Floats) -> None:
    """(gram + ridge) θ = moment by Cholesky's method."""
    features = moment.shape[0]
    at = 0
    for i in range(features):
        for j in range(i):
            value = gram[at + j]
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            factor[i, j] = value * factor[j, j]
        value = gram[at + i] * (1.0 + _RELATIVE_RIDGE) + ridge
        for k in range(i):
            value -= factor[i, k] * factor[i, k]
        factor[i, i] = 1.0 / math.sqrt(max(value, 1e-300))  # the diagonal is kept inverted: fewer divisions
        at += i + 1
    for i in range(features):
        value = moment[i]
        for k in range(i):
            value -= factor[i, k] * theta[k]
        theta[i] = value * factor[i, i]
    for i in range(features - 1, -1, -1):
        value = theta[i] * factor[i, i]
        theta[i] = value
        for k in range(i):
            theta[k] -= factor[i, k] * value


def forget_features(regressions: Regressions, stream: int, first: int, last: int) -> None:
    """Features first … last − 1 mean something else from now on: forget what was learned about them."""
    gram = regressions.gram[stream]
    for row in range(first, regressions.moment.shape[2]):
        start = row * (row + 1) // 2
        gram[:, start + first : start + min(last, row + 1)] = 0.0
        if row < last:
            gram[:, start : start + first] = 0.0
    regressions.moment[stream, :, first:last] = 0.0
    regressions.theta[stream, :, first:last] = 0.0
