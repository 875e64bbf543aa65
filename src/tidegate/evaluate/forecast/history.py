"""What a bank remembers of its streams: samples in a ring, a few levels and a trend, each stream on its own clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.evaluate.forecast.rows import Floats, Ints, Layout, Singles

LAGS = 5
PACES = (0.3, 0.1, 0.02, 0.002)
"""Paces of the exponentially smoothed levels: half-lives of 2, 7, 34 and 346 samples."""
_PACES = np.array(PACES)[:, None]
_CYCLES = 4
_FADE = 0.7  # weight of a season relative to the following one
_WIDE = 100  # seasonal means cover a hundredth of a season on either side …
_POINTS = np.array([-2, -1, 0, 1, 2])  # … at five points of that window
_WEIGHTS = _FADE ** np.arange(_CYCLES)[:, None]


class History(NamedTuple):
    """Columns; a stream's samples are numbered from 0."""

    age: Floats
    """Samples so far; 0 before the first that is not missing."""
    origin: Floats
    """First sample of each stream. The ring holds differences from it, so that single precision is enough."""
    recent: Floats
    """The last sample and the `LAGS` before it, newest first."""
    smooth: Floats
    low: Floats
    """Smallest sample so far."""
    high: Floats


HISTORY = Layout(
    History,
    age=0.0,
    origin=0.0,
    recent=np.full(LAGS + 1, np.nan),
    smooth=np.zeros(len(PACES)),
    low=np.inf,
    high=-np.inf,
)


def remember(history: History, ring: Singles, rows: Ints, values: Floats, expected: Floats) -> None:
    """Add the next sample of the streams `rows`. A missing one is replaced by the expected value or the last sample."""
    recent = history.recent
    first = history.age == 0
    if np.count_nonzero(first):
        history.origin[first] = values[first]
        recent[:, first] = values[first]
    np.fmin(history.low, values, out=history.low)
    np.fmax(history.high, values, out=history.high)
    missing = np.isnan(values)
    if np.count_nonzero(missing):
        values = np.where(missing, np.where(np.isnan(expected), recent[0], expected), values)
    size = ring.shape[1]
    at = history.age.astype(np.int64) & (size - 1)
    at += rows * size
    ring.reshape(-1)[at] = values - history.origin
    recent[1:] = recent[:-1].copy()
    recent[0] = values
    history.age[:] += 1.0
    history.smooth[:] += np.maximum(_PACES, 1.0 / history.age) * (values - history.smooth)


def seasonal_levels(ring: Singles, rows: Ints, newest: Ints, seasons: Ints, ahead: int) -> tuple[Floats, Floats]:
    """Past levels at the phase of `ahead` samples from now, minus the origin; NaN if not remembered.

    The first is the level one season before. The second is the mean around that phase over the last `_CYCLES` seasons,
    with more weight on recent ones. `rows`, the number of the newest sample and a season go together.
    """
    size = ring.shape[1]
    oldest = np.maximum(newest + 1 - size, 0)
    middle = newest + ahead - seasons * -(-ahead // seasons)
    middles = middle - seasons * np.arange(_CYCLES)[:, None]
    reach = np.maximum(seasons // _WIDE, 1)
    offsets = (reach * (0.5 * _POINTS)[:, None]).astype(np.int64)
    at = middles[:, None] + offsets
    np.minimum(at, newest, out=at)
    at &= size - 1
    at += rows * size
    values = ring.reshape(-1).take(at)
    weights = _WEIGHTS * (middles - reach >= oldest)
    total = weights.sum(axis=0)
    mean = (weights * values.sum(axis=1)).sum(axis=0) / (len(_POINTS) * np.where(total > 0, total, np.nan))
    naive = values[0, len(_POINTS) // 2]
    return np.where(middle >= oldest, naive, np.nan), mean


def unrolled(ring: Singles, origin: float, age: int, stream: int) -> Floats:
    """The remembered samples of one stream, oldest first."""
    size = ring.shape[1]
    at = np.arange(max(0, age - size), age) & (size - 1)
    return np.asarray(ring[stream, at] + np.float64(origin), dtype=np.float64)
