"""Online ARIMA over a bank of streams: coefficients by recursive least squares at every sample, iterated forecasts.

    λ̂_τ = ε_τ + Σ_l (β_l λ_(τ−l) + θ_l ε_(τ−l)) on d-times differenced values (Q-Flink)

The past errors ε are not observed. As in extended least squares (Ljung & Söderström 1983, ch. 3), the residuals after
each update stand in for them. Written by hand because it must handle thousands of streams within milliseconds:
statsmodels fits one series at a time in batch, River one sample of one series at a time in Python.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tidegate.evaluate.forecast.forecaster import Forecast, samples
from tidegate.evaluate.forecast.rows import Bools, Floats, Layout

RIDGE = 1.0
"""Weight of the prior "all coefficients are 0", in samples of typical size. While nothing happens, the past is
forgotten only back to this prior.
"""
OUTLIER = 5.0
"""Errors beyond this many root mean squares teach only as much as an error at that distance (Huber)."""
OTHER_WORLD = 1e10
"""A square this many times the typical one restarts learning: small values say nothing about such large ones."""
NOTHING = 1e-200
"""Energy below this is rounding error."""
MARGIN = 0.1
"""How far a path may leave the range seen so far, as a share of it: online coefficients can be unstable."""
INVERTIBLE = 0.98
"""Upper bound of Σ|θ|: beyond 1 errors could amplify themselves."""
MEMORY = 0.995
"""Discount of running errors: the last 200 samples count."""
PACE = 0.02
"""How fast the width of intervals follows misses (adaptive conformal inference, Gibbs & Candès 2021)."""

Order = tuple[int, int, int]


class Arima(NamedTuple):
    """Columns: the state of each stream."""

    seen: Floats
    coefficients: Floats
    """β_1 … β_p, θ_1 … θ_q and, without differencing, a constant."""
    regressors: Floats
    covariance: Floats
    prior: Floats
    """1 ÷ typical square of a regressor; 0 until known."""
    energy: Floats
    last: Floats
    """y, Δy of the last sample."""
    low: Floats
    """Smallest sample so far."""
    high: Floats
    errors: Floats
    """Discounted squares: of this model, and of the last value as a forecast."""
    width: Floats
    """Width of the one-step interval, in root mean square errors."""


def arima_layout(order: Order) -> Layout[Arima]:
    p, d, q = order
    size = p + q + (d == 0)
    regressors = np.zeros(size)
    if d == 0:
        regressors[-1] = 1.0
    return Layout(
        Arima,
        seen=0.0,
        coefficients=np.zeros(size),
        regressors=regressors,
        covariance=np.zeros((size, size)),
        prior=0.0,
        energy=0.0,
        last=np.full(2, np.nan),
        low=np.inf,
        high=-np.inf,
        errors=np.zeros(2),
        width=1.645,
    )


class ArimaBank:
    """ARIMA(p, d, q) for `streams` series at once.

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
        order: Order = (3, 1, 1),
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
        self._layout = arima_layout(order)
        self._block = np.ascontiguousarray(self._layout.empty(streams).T)

    @property
    def streams(self) -> int:
        return self._streams

    @property
    def horizon(self) -> int:
        return self._horizon

    @property
    def coefficients(self) -> Floats:
        """Streams × coefficients."""
        return self._layout.view(self._block).coefficients.T

    def observe(self, values: ArrayLike) -> None:
        """One sample of every stream. For NaN the stream's own forecast stands in, and nothing is learned."""
        now = samples(values, self._streams)
        arima = self._layout.view(self._block)
        known = ~np.isnan(now) | (arima.seen > 0)
        if known.all():
            learn(arima, now, self.order, self.forgetting, 1 - self.coverage)
        elif known.any():
            block = self._block[:, known]
            learn(self._layout.view(block), now[known], self.order, self.forgetting, 1 - self.coverage)
            self._block[:, known] = block

    def forecast(self) -> Forecast:
        """The path of the next `horizon` steps; NaN for a stream without samples."""
        arima = self._layout.view(self._block)
        middle = np.stack(path(arima, self.order, self._horizon), axis=1)
        reach = error_reach(arima, self.order, self._horizon)
        floor = np.where(arima.low >= 0.0, 0.0, -np.inf)[:, None]
        seen = (arima.seen > 0)[:, None]
        mean, lower, upper = (
            np.where(seen, np.maximum(part, floor), np.nan) for part in (middle, middle - reach, middle + reach)
        )
        return Forecast(mean, lower, upper, (arima.prior > 0) & (arima.errors[0] < arima.errors[1]))


def learn(arima: Arima, values: Floats, order: Order, forgetting: float, alpha: float) -> None:
    """Learn the next sample. NaN means missing; the first sample of a stream is never missing."""
    p, d, q = order
    seen, last, prior, width = arima.seen, arima.last, arima.prior, arima.width
    theta, x, errors = arima.coefficients, arima.regressors, arima.errors
    ready = seen > d
    predicted = ready * (theta * x).sum(axis=0)
    missing = np.isnan(values)
    some_missing = np.count_nonzero(missing) > 0
    if some_missing:
        # Undo the differencing of the one-step forecast.
        step = predicted if d == 1 else (last[1] + predicted if d == 2 else predicted - last[0])
        stand_in = np.where(ready, np.clip(last[0] + step, arima.low, arima.high), last[0])
        values = np.where(missing, stand_in, values)
    first = np.where(seen > 0, values - last[0], 0.0)
    w = values if d == 0 else (first if d == 1 else np.where(seen > 1, first - last[1], 0.0))
    learnt = ready & ~missing
    error = learnt * (w - predicted)
    known = prior > 0.0
    missed = np.abs(error) > width * np.sqrt(errors[0])
    width *= np.exp((PACE * (learnt & known)) * (missed - alpha))
    np.minimum(np.maximum(width, 0.1), 20.0, out=width)
    # The first samples have equal weight, later ones are discounted.
    pace = learnt * np.maximum(1.0 - MEMORY, 1.0 / np.maximum(seen - (d - 1), 1.0))
    errors[0] += pace * (error * error - errors[0])
    errors[1] += pace * (first * first - errors[1])
    square = w * w
    arima.energy[:] += learnt * square
    strange = square * prior > OTHER_WORLD
    updating = learnt & known & ~strange
    residual = error
    if np.count_nonzero(updating):
        limit = OUTLIER * np.sqrt(errors[0])
        left = _update(arima, w, np.minimum(np.maximum(error, -limit), limit), updating, forgetting, order)
        residual = np.where(updating, left, error)
    starting = learnt & ~updating & (strange | ((arima.energy > NOTHING) & (seen >= 2 * len(x) + d)))
    if np.count_nonzero(starting):
        theta[:, starting] = 0.0
        prior[starting] = (seen[starting] - d) / (RIDGE * arima.energy[starting])
        fresh = np.eye(len(x))[:, :, None] * prior[starting]
        if d == 0:  # the constant's regressor is 1, whatever the size of the values
            fresh[-1, -1] = 1.0 / RIDGE
        arima.covariance[:, :, starting] = fresh
    shifted = x.copy()
    if p > 0:
        shifted[1:p], shifted[0] = x[: p - 1], w
    if q > 0:
        shifted[p + 1 : p + q], shifted[p] = x[p : p + q - 1], residual
    x[:] = shifted if d == 0 else np.where(ready, shifted, x)
    bounds = np.where(missing, np.nan, values) if some_missing else values
    np.fmin(arima.low, bounds, out=arima.low)
    np.fmax(arima.high, bounds, out=arima.high)
    last[0], last[1] = values, first
    seen += 1.0


def _update(arima: Arima, w: Floats, error: Floats, updating: Bools, forgetting: float, order: Order) -> Floats:
    """One step of recursive least squares where `updating`. Returns the error that remains after it."""
    p, _, q = order
    theta, x, covariance = arima.coefficients, arima.regressors, arima.covariance
    gain = (covariance * x).sum(axis=1)
    scale = updating / (forgetting + (gain * x).sum(axis=0))
    trace = np.einsum("iin->n", covariance[: p + q, : p + q])
    grow = np.where(updating & (trace < arima.prior * (p + q)), 1.0 / forgetting, 1.0)
    # The outer product comes first: it is exactly symmetric, and rounding would make the halves drift apart.
    covariance -= gain[:, None] * gain * scale
    covariance *= grow
    theta += gain * (scale * error)
    moving = np.abs(theta[p : p + q]).sum(axis=0)
    theta[p : p + q] *= INVERTIBLE / np.maximum(moving, INVERTIBLE)
    left: Floats = w - (theta * x).sum(axis=0)
    return left


def path(arima: Arima, order: Order, steps: int) -> list[Floats]:
    """The level at 1 … `steps` ahead; the last value while too little is known."""
    p, d, q = order
    margin = MARGIN * (arima.high - arima.low)
    low, high = arima.low - margin, arima.high + margin
    now = arima.last[0].copy()
    level, slope = now, arima.last[1]
    young: Bools = arima.prior == 0.0
    if np.count_nonzero(young) == len(young):
        return [level] * steps
    some_young = np.count_nonzero(young) > 0
    theta, x = [*arima.coefficients], [*arima.regressors]
    # A difference larger than all its regressors comes from temporarily unstable coefficients.
    largest = np.abs(arima.regressors[: p + q]).max(axis=0) if d > 0 else np.full(len(now), np.inf)
    nothing = np.zeros(len(now))
    found = []
    for _ in range(steps):
        w = nothing
        for coefficient, regressor in zip(theta, x, strict=True):
            if regressor is not nothing:
                w = w + coefficient * regressor
        w = np.minimum(np.maximum(w, -largest), largest)
        x = [*([w, *x[: p - 1]] if p else []), *([nothing, *x[p : p + q - 1]] if q else []), *x[p + q :]]
        if d == 2:
            slope = slope + w
        level = w if d == 0 else level + (w if d == 1 else slope)
        level = np.minimum(np.maximum(level, low), high)
        found.append(np.where(young, now, level) if some_young else level)
    return found


def error_reach(arima: Arima, order: Order, steps: int) -> Floats:
    """Half the width of the interval at each step: its variance is the sum of the squared weights ψ of past errors."""
    p, d, q = order
    theta = arima.coefficients
    impulses = [np.ones(theta.shape[1])]
    for ahead in range(1, steps):
        impulse = theta[p + ahead - 1].copy() if ahead <= q else np.zeros(theta.shape[1])
        for lag in range(min(p, ahead)):
            impulse += theta[lag] * impulses[ahead - 1 - lag]
        impulses.append(np.clip(impulse, -1e6, 1e6))
    weights = np.stack(impulses, axis=1)
    for _ in range(d):
        weights = np.cumsum(weights, axis=1)
    squares = np.where((arima.prior == 0.0)[:, None], 1.0, np.minimum(weights * weights, 1e6))
    half = arima.width * np.sqrt(arima.errors[0])
    return np.asarray(half[:, None] * np.sqrt(np.cumsum(squares, axis=1)))
