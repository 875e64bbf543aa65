"""The measured rate of every flow, and a forecast of it: the monitoring data that schedulers use."""

from __future__ import annotations

import numpy as np

from tidegate.adapters.sim.plantstate import Floats

_LEAST_RECORDS = 8
_LEAST_CORRELATION = 0.5
_SAME = 0.01  # correlations closer than this are equally good


class RateHistory:
    """The input rate of each task: one number per record, the latest `length` of them. Unknown values are not recorded.

    >>> history = RateHistory(tasks=1, length=64)
    >>> for moment in range(40):
    ...     history.record(np.array([10.0 + (moment % 5)]), alive=np.array([True]))
    >>> history.series(0)[-3:].tolist(), history.forecast(0, 7).tolist()
    ([12.0, 13.0, 14.0], [10.0, 11.0, 12.0, 13.0, 14.0, 10.0, 11.0])
    """

    def __init__(self, tasks: int, length: int = 512) -> None:
        self._rates = np.zeros((tasks, length))
        self._known = np.zeros(tasks, dtype=np.int64)
        self._next = 0

    def record(self, rows_per_s: Floats, alive: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        self._rates[:, self._next % self._rates.shape[1]] = rows_per_s
        self._next += 1
        self._known = np.where(alive, np.minimum(self._known + 1, self._rates.shape[1]), 0)

    def series(self, task: int) -> Floats:
        """The known input rates of a task, oldest first; empty before the first record."""
        places = np.arange(self._next - self._known[task], self._next) % self._rates.shape[1]
        return np.asarray(self._rates[task, places])

    def forecast(self, task: int, horizon: int) -> Floats | None:
        """The next `horizon` records: the last period repeated, or that much of the past without one; None if unknown.

        The period is the lag with the largest autocorrelation (at least 0.5) in the known records.
        """
        known = self.series(task)
        if not len(known):
            return None
        return np.resize(known[-(_period(known) or horizon) :], horizon)


def _period(series: Floats) -> int | None:
    """The first lag, after the fall from lag 0, whose autocorrelation returns to its best; None if it never does."""
    length = len(series)
    centred = series - series.mean()
    if length < _LEAST_RECORDS or np.abs(centred).max() <= 1e-9 * np.abs(series).max():
        return None
    correlation = _autocorrelation(centred)
    fallen = np.flatnonzero(correlation < 0)
    if not len(fallen):
        return None
    correlation[: fallen[0]] = 0.0
    best = correlation.max()
    if best < _LEAST_CORRELATION:
        return None
    near = np.flatnonzero(correlation >= best - _SAME)
    ends = np.flatnonzero(np.diff(near) > 1)
    first_hill = near[: ends[0] + 1] if len(ends) else near
    return int(first_hill[np.argmax(correlation[first_hill])])


def _autocorrelation(centred: Floats) -> Floats:
    """Autocorrelation at each lag up to half the length, normalised by the energy of the two overlapping stretches."""
    length = len(centred)
    spectrum = np.fft.rfft(centred, 2 * length)
    products = np.fft.irfft(spectrum * np.conj(spectrum))[: length // 2 + 1]
    energy = np.concatenate([[0.0], np.cumsum(centred**2)])
    lags = np.arange(length // 2 + 1)
    scale = np.sqrt(energy[length - lags] * (energy[length] - energy[lags]))
    return np.asarray(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0))
