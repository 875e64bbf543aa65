"""A single stream in plain numbers: what `arima`, `intervals` and `regression` compute for columns.

Most drivers run one query, and the buckets of few streams end in the same second. An array operation on one element
costs ten times as much as a plain number. The formulas are explained beside the columns.
`tests/forecast/test_onestream.py` compares the two to the last bit. Sums and exponentials are NumPy's here too, because
other libraries add and round in another order.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from tidegate.evaluate.forecast import arima as columns
from tidegate.evaluate.forecast import intervals, regression
from tidegate.evaluate.forecast.arima import Arima, Order
from tidegate.evaluate.forecast.intervals import IssuedInterval
from tidegate.evaluate.forecast.rows import Floats


def calibrate(state: Floats, value: float, issued: IssuedInterval, alpha: float, ahead: int, outcomes: float) -> None:
    """Like `intervals.calibrate`."""
    below, above, quick, slow, misses = state[:, 0].tolist()
    mean, lower, upper, unit = [column.item() for column in issued]
    calm, share = 1.0 / (1.0 + (ahead - 1) / 12.0), 1.0 / outcomes
    under, over = value < lower, value > upper
    if unit > 0.0:
        step, target = intervals.STEP * calm * max(1.0, 5.0 * sqrt(share)), 0.5 * misses
        grown = np.exp((step * (under - target), step * (over - target))).tolist()
        below, above = below * grown[0], above * grown[1]
        misses += intervals.STEER * (alpha - under - over)
    size = abs(value - mean)
    state[:, 0] = (
        min(max(below, 1e-3), 1e3),
        min(max(above, 1e-3), 1e3),
        quick + max((1.0 - intervals.QUICK_MEMORY) * calm, share) * (size - quick),
        slow + max(1.0 - intervals.SLOW_MEMORY, share) * (size - slow),
        min(max(misses, 0.5 * alpha), 2.0 * alpha),
    )


def robust_weight(noise: Floats, error: float, outcomes: float) -> float:
    """Like `regression.robust_weights`."""
    tame, plain = noise[:, 0].tolist()
    share, square, tamed, weight = 1.0 / outcomes, error * error, error * error, 1.0
    if outcomes > regression.SETTLED:
        limit = regression.HUBER * sqrt(max(tame, regression.LEAST_TAME * plain))
        weight = limit / max(abs(error), limit, 1e-300)
        tamed = min(square, regression.MOST_TAMED * tame + 1e-300)
    noise[:, 0] = tame + max(regression.PACE, share) * (tamed - tame), plain + share * (square - plain)
    return weight


def learn(arima: Arima, value: float, order: Order, forgetting: float, alpha: float) -> None:
    """Like `arima.learn`, for a sample that is not missing."""
    p, d, q = order
    seen, prior, width = arima.seen.item(), arima.prior.item(), arima.width.item()
    last, before = arima.last[:, 0].tolist()
    own, plain = arima.errors[:, 0].tolist()
    theta, x = arima.coefficients, arima.regressors
    ready, known = seen > d, prior > 0.0
    first = value - last if seen > 0 else 0.0
    w = value if d == 0 else (first if d == 1 else (first - before if seen > 1 else 0.0))
    error = w - (theta * x).sum(axis=0).item() if ready else 0.0
    square = w * w
    if ready:
        if known:
            missed = abs(error) > width * sqrt(own)
            width = min(max(width * float(np.exp(columns.PACE * (missed - alpha))), 0.1), 20.0)
        pace = max(1.0 - columns.MEMORY, 1.0 / max(seen - (d - 1), 1.0))
        own, plain = own + pace * (error * error - own), plain + pace * (first * first - plain)
        arima.energy[0] += square
        arima.width[0] = width
        arima.errors[:, 0] = own, plain
    residual, strange = error, square * prior > columns.OTHER_WORLD
    if ready and known and not strange:
        limit = columns.OUTLIER * sqrt(own)
        residual = _update(arima, w, min(max(error, -limit), limit), forgetting, order)
    elif ready and (strange or (arima.energy.item() > columns.NOTHING and seen >= 2 * len(x) + d)):
        _start(arima, seen, d)
    if ready or d == 0:
        past = x[:, 0].tolist()
        x[:, 0] = ([w, *past[: p - 1]] if p else []) + ([residual, *past[p : p + q - 1]] if q else []) + past[p + q :]
    arima.low[0], arima.high[0] = min(arima.low.item(), value), max(arima.high.item(), value)
    arima.last[:, 0] = value, first
    arima.seen[0] = seen + 1.0


def path(arima: Arima, order: Order, steps: int) -> Floats:
    """Like `arima.path`: steps × the stream."""
    p, d, q = order
    level, slope = arima.last[:, 0].tolist()
    if arima.prior.item() == 0.0:
        return np.full((steps, 1), level)
    low, high = arima.low.item(), arima.high.item()
    margin = columns.MARGIN * (high - low)
    low, high = low - margin, high + margin
    theta: list[float] = arima.coefficients[:, 0].tolist()
    x: list[float | None] = arima.regressors[:, 0].tolist()
    largest = max(map(abs, arima.regressors[: p + q, 0].tolist())) if d > 0 else np.inf
    found = []
    for _ in range(steps):
        w = 0.0
        for coefficient, regressor in zip(theta, x, strict=True):
            if regressor is not None:  # an error that is still to come, expected to be 0
                w += coefficient * regressor
        w = min(max(w, -largest), largest)
        x = [*([w, *x[: p - 1]] if p else []), *([None, *x[p : p + q - 1]] if q else []), *x[p + q :]]
        slope += w if d == 2 else 0.0
        level = w if d == 0 else level + (w if d == 1 else slope)
        level = min(max(level, low), high)
        found.append(level)
    return np.array(found)[:, None]


def _update(arima: Arima, w: float, error: float, forgetting: float, order: Order) -> float:
    p, _, q = order
    theta, x, covariance = arima.coefficients, arima.regressors, arima.covariance
    gain = (covariance * x).sum(axis=1)
    scale = 1.0 / (forgetting + (gain * x).sum(axis=0).item())
    trace = np.einsum("iin->n", covariance[: p + q, : p + q]).item()
    covariance -= gain[:, None] * gain * scale
    if trace < arima.prior.item() * (p + q):
        covariance *= 1.0 / forgetting
    theta += gain * (scale * error)
    moving = np.abs(theta[p : p + q]).sum(axis=0).item()
    if moving > columns.INVERTIBLE:
        theta[p : p + q] *= columns.INVERTIBLE / moving
    left: float = w - (theta * x).sum(axis=0).item()
    return left


def _start(arima: Arima, seen: float, d: int) -> None:
    size = len(arima.regressors)
    arima.coefficients[:] = 0.0
    arima.prior[0] = (seen - d) / (columns.RIDGE * arima.energy.item())
    arima.covariance[:, :, 0] = np.eye(size) * arima.prior.item()
    if d == 0:
        arima.covariance[-1, -1] = 1.0 / columns.RIDGE
