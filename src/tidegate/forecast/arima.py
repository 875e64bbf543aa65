"""Online ARIMA over a bank of streams: coefficients by recursive least squares at every sample, forecasts by iteration.

    λ̂_τ = ε_τ + Σ_l (β_l λ_(τ−l) + θ_l ε_(τ−l)) on d-times differenced values (Q-Flink)

The past errors ε are not observed; as in extended least squares (Ljung & Söderström 1983, ch. 3) the residuals after
each update stand for them. Written by hand because it has to be done for thousands of streams within a millisecond:
statsmodels fits one series at a time in batch, River one sample of one series at a time in Python.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tidegate.forecast.forecaster import Forecast, samples
from tidegate.forecast.jit import Bools, Floats, Ints, kernel

_RIDGE = 1.0
"""Weight of the prior "all coefficients are 0", in samples of typical size; while nothing happens the past is forgotten
no further than back to this prior."""
_OUTLIER = 5.0
"""Errors beyond so many root mean squares teach only as much as one at that distance (Huber)."""
_OTHER_WORLD = 1e10
"""A square so many times the typical one makes learning start anew: small values say nothing about such ones."""
_NOTHING = 1e-200
"""Energy below is rounding."""
_MARGIN = 0.1
"""How far a path may leave the range of all that was seen, as a share of that range: online coefficients can be
unstable for a while."""
_INVERTIBLE = 0.98
"""Σ|θ| stays below it: beyond 1 errors could feed on themselves."""
_MEMORY = 0.995
"""Discount of running errors: the last 200 samples count."""
_PACE = 0.02
"""How fast the width of intervals follows misses (adaptive conformal inference, Gibbs & Candès 2021)."""


class ArimaBank:
    """ARIMA(p, d, q) for `streams` series at once; about a microsecond for a stream's update and its forecast.

    >>> bank = ArimaBank(streams=1, horizon=3, order=(1, 1, 0))
    >>> for value in range(100):
    ...     bank.observe([2.0 * value])
    >>> bank.forecast().mean.round().tolist()
    [[200.0, 202.0, 204.0]]
    """

    def __init__(
        self,
        streams: int,
        horizon: int = 1,
        *,
        order: tuple[int, int, int] = (3, 1, 1),
        forgetting: float = 0.998,
        coverage: float = 0.9,
    ) -> None:
        p, d, q = order
        if streams < 1 or horizon < 1:
            raise ValueError(f"a bank has at least one stream and one step, not {streams} and {horizon}")
        if p < 0 or q < 0 or p + q < 1 or d not in (0, 1, 2):
            raise ValueError(f"an order needs p, q ≥ 0, p + q ≥ 1 and d of 0, 1 or 2, not {order}")
        if not 0.9 <= forgetting <= 1:
            raise ValueError(f"forgetting lies between 0.9 and 1, not {forgetting}")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage lies between 0 and 1, not {coverage}")
        self._streams, self._horizon = streams, horizon
        self.order, self.forgetting, self.coverage = order, forgetting, coverage
        size = p + q + (d == 0)
        self.seen = np.zeros(streams, dtype=np.int64)
        self.coefficients = np.zeros((streams, size))
        """β_1 … β_p, θ_1 … θ_q and, where nothing is differenced, a constant."""
        self._regressors = np.zeros((streams, size))
        if d == 0:
            self._regressors[:, -1] = 1.0
        self._covariance = np.zeros((streams, size, size))
        self._prior = np.zeros(streams)  # 1 / typical square of a regressor; 0 until known
        self._energy = np.zeros(streams)
        self._last = np.full((streams, 3), np.nan)  # y, Δy, Δ²y of the last sample
        self._range = np.tile(np.array([np.inf, -np.inf]), (streams, 1))
        self._errors = np.zeros((streams, 2))  # discounted squares: ours, last value's
        self._width = np.full(streams, 1.645)  # of the one-step interval, in root mean square errors

    @property
    def streams(self) -> int:
        return self._streams

    @property
    def horizon(self) -> int:
        return self._horizon

    def observe(self, values: ArrayLike) -> None:
        """One sample of every stream; where it is NaN the stream's own forecast stands in and nothing is learned."""
        p, d, q = self.order
        _observe(
            samples(values, self._streams), p, d, q, self.forgetting, 1 - self.coverage, self.seen, self.coefficients,
            self._regressors, self._covariance, self._prior, self._energy, self._last, self._range, self._errors,
            self._width,
        )  # fmt: skip

    def forecast(self) -> Forecast:
        """The path of the next `horizon` steps; a stream that was never seen is forecast as NaN."""
        p, d, q = self.order
        shape = (self._streams, self._horizon)
        found = Forecast(np.empty(shape), np.empty(shape), np.empty(shape), np.empty(self._streams, dtype=np.bool_))
        _forecast(
            p, d, q, self.seen, self.coefficients, self._regressors, self._prior, self._last, self._range,
            self._errors, self._width, found.mean, found.lower, found.upper, found.trusted,
        )  # fmt: skip
        return found


@kernel
def _observe(
    values: Floats, p: int, d: int, q: int, forgetting: float, alpha: float, seen: Ints, coefficients: Floats,
    regressors: Floats, covariance: Floats, prior: Floats, energy: Floats, last: Floats, spread: Floats,
    errors: Floats, width: Floats,
) -> None:  # fmt: skip
    size = coefficients.shape[1]
    gain = np.empty(size)
    for s in range(values.shape[0]):
        theta, x, y = coefficients[s], regressors[s], values[s]
        ready = seen[s] > d
        predicted = 0.0
        if ready:
            for j in range(size):
                predicted += theta[j] * x[j]
        missing = math.isnan(y)
        if missing:
            if seen[s] == 0:
                continue
            y = last[s, 0]  # undo the differencing of the one-step forecast
            if ready:
                y += predicted if d == 1 else (last[s, 1] + predicted if d == 2 else predicted - y)
                y = min(max(y, spread[s, 0]), spread[s, 1])
        first = y - last[s, 0] if seen[s] > 0 else 0.0
        second = first - last[s, 1] if seen[s] > 1 else 0.0
        w = y if d == 0 else (first if d == 1 else second)
        residual = 0.0
        if ready and not missing:
            error = w - predicted
            ours, naive = errors[s]
            if prior[s] > 0.0:
                half = width[s] * math.sqrt(ours)
                width[s] *= math.exp(_PACE * ((1.0 if abs(error) > half else 0.0) - alpha))
                width[s] = min(max(width[s], 0.1), 20.0)
            # The first samples count alike, later ones are discounted.
            pace = max(1.0 - _MEMORY, 1.0 / (seen[s] - d + 1))
            errors[s, 0] = ours + pace * (error * error - ours)
            errors[s, 1] = naive + pace * (first * first - naive)
            residual = error
            energy[s] += w * w
            strange = w * w * prior[s] > _OTHER_WORLD
            if prior[s] > 0.0 and not strange:
                limit = _OUTLIER * math.sqrt(errors[s, 0])
                tamed = min(max(error, -limit), limit)
                residual = _learn(theta, x, w, tamed, covariance[s], gain, prior[s], forgetting, p, q)
            elif strange or (energy[s] > _NOTHING and seen[s] >= 2 * size + d):
                prior[s] = (seen[s] - d) / (_RIDGE * energy[s])
                theta[:] = 0.0
                covariance[s, :, :] = 0.0
                for j in range(size):
                    covariance[s, j, j] = prior[s]
                if d == 0:  # the constant's regressor is 1, whatever the size of the values
                    covariance[s, size - 1, size - 1] = 1.0 / _RIDGE
        if ready or d == 0:
            for j in range(p - 1, 0, -1):
                x[j] = x[j - 1]
            if p > 0:
                x[0] = w
            for j in range(p + q - 1, p, -1):
                x[j] = x[j - 1]
            if q > 0:
                x[p] = residual
        if not missing:
            spread[s, 0], spread[s, 1] = min(spread[s, 0], y), max(spread[s, 1], y)
        last[s, 0], last[s, 1], last[s, 2] = y, first, second
        seen[s] += 1


@kernel
def _learn(
    theta: Floats, x: Floats, w: float, error: float, covariance: Floats, gain: Floats, prior: float,
    forgetting: float, p: int, q: int,
) -> float:  # fmt: skip
    """One step of recursive least squares; returns the error that is left after it."""
    size = theta.shape[0]
    scale = forgetting
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += covariance[i, j] * x[j]
        gain[i] = total
        scale += total * x[i]
    trace = 0.0
    for i in range(p + q):
        trace += covariance[i, i]
    grow = 1.0 / forgetting if trace < prior * (p + q) else 1.0
    left = w
    for i in range(size):
        share = gain[i] / scale
        theta[i] += share * error
        for j in range(i + 1):  # one half, mirrored: rounding would make the halves drift apart, exponentially
            covariance[i, j] = covariance[j, i] = (covariance[i, j] - share * gain[j]) * grow
    moving = 0.0
    for j in range(p, p + q):
        moving += abs(theta[j])
    if moving > _INVERTIBLE:
        for j in range(p, p + q):
            theta[j] *= _INVERTIBLE / moving
    for i in range(size):
        left -= theta[i] * x[i]
    return left


@kernel
def _forecast(
    p: int, d: int, q: int, seen: Ints, coefficients: Floats, regressors: Floats, prior: Floats, last: Floats,
    spread: Floats, errors: Floats, width: Floats, mean: Floats, lower: Floats, upper: Floats, trusted: Bools,
) -> None:  # fmt: skip
    steps = mean.shape[1]
    size = coefficients.shape[1]
    x = np.empty(size)
    past = np.zeros(max(p, 1))
    for s in range(mean.shape[0]):
        young = prior[s] == 0.0
        trusted[s] = (not young) and errors[s, 0] < errors[s, 1]
        if seen[s] == 0:
            mean[s, :] = np.nan
            lower[s, :] = np.nan
            upper[s, :] = np.nan
            continue
        theta = coefficients[s]
        for j in range(size):
            x[j] = regressors[s, j]
        margin = _MARGIN * (spread[s, 1] - spread[s, 0])
        low, high = spread[s, 0] - margin, spread[s, 1] + margin
        floor = 0.0 if spread[s, 0] >= 0.0 else -np.inf
        level, slope = last[s, 0], last[s, 1]
        half = width[s] * math.sqrt(errors[s, 0])
        past[:] = 0.0
        impulse, trend, weight, variance = 1.0, 0.0, 0.0, 0.0
        # A difference larger than all it is predicted from comes from coefficients that are unstable just now.
        largest = np.inf
        if d > 0:
            largest = 0.0
            for j in range(p + q):
                largest = max(largest, abs(x[j]))
        for h in range(steps):
            if not young:
                w = 0.0
                for j in range(size):
                    w += theta[j] * x[j]
                w = min(max(w, -largest), largest)
                for j in range(p - 1, 0, -1):
                    x[j] = x[j - 1]
                if p > 0:
                    x[0] = w
                for j in range(p + q - 1, p, -1):
                    x[j] = x[j - 1]
                if q > 0:
                    x[p] = 0.0
                if d == 2:
                    slope += w
                    level += slope
                elif d == 1:
                    level += w
                else:
                    level = w
                level = min(max(level, low), high)
                # Weights ψ of past errors in the error h steps ahead: their squares add up to its variance.
                if h > 0:
                    impulse = theta[p + h - 1] if h <= q else 0.0
                    for j in range(p):
                        impulse += theta[j] * past[j]
                for j in range(p - 1, 0, -1):
                    past[j] = past[j - 1]
                past[0] = impulse
                trend += impulse
                weight = impulse if d == 0 else (trend if d == 1 else weight + trend)
                variance += min(weight * weight, 1e6)
            else:
                variance += 1.0
            reach = half * math.sqrt(variance)
            mean[s, h] = max(level, floor)
            lower[s, h] = max(level - reach, floor)
            upper[s, h] = max(level + reach, floor)
