"""What a bank remembers of its streams: running sums in a ring (for seasonal means) and a few levels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegate.forecast.jit import Floats, Ints, kernel

LAGS = 5
PACES = (0.3, 0.1, 0.02, 0.002)
"""Of the exponentially smoothed levels: half-lives of 2, 7, 34 and 346 samples."""
_WINDOW = 49  # of the running median; odd
_CYCLES = 4
_FADE = 0.7  # weight of a season against the one after it


class History(NamedTuple):
    """Arrays over streams; the first dimension of `sums` is time, in a ring."""

    sums: Floats
    """`sums[t % ring]` is the sum of the first t samples, less their number times `origin`."""
    origin: Floats
    """First sample of each stream: sums of differences from it keep their digits."""
    began: Ints
    """Time of the first sample; −1 before it."""
    recent: Floats
    """The last sample and the `LAGS` before it, newest first."""
    smooth: Floats
    window: Floats
    """The last samples in the order they came (a ring), and …"""
    ordered: Floats
    """… in order of size, for the running median."""
    spread: Floats
    """Least and largest sample so far."""


def empty_history(streams: int, ring: int) -> History:
    return History(
        sums=np.zeros((ring, streams)),
        origin=np.zeros(streams),
        began=np.full(streams, -1),
        recent=np.full((streams, LAGS + 1), np.nan),
        smooth=np.zeros((streams, len(PACES))),
        window=np.zeros((streams, _WINDOW)),
        ordered=np.zeros((streams, _WINDOW)),
        spread=np.tile(np.array([np.inf, -np.inf]), (streams, 1)),
    )


@kernel
def remember(history: History, time: int, values: Floats, expected: Floats) -> None:
    """Take the samples of `time`; what was expected, else the last one, stands in for a missing sample."""
    sums, origin, began, recent = history.sums, history.origin, history.began, history.recent
    smooth, window, ordered, spread = history.smooth, history.window, history.ordered, history.spread
    before, after = time % sums.shape[0], (time + 1) % sums.shape[0]
    for s in range(values.shape[0]):
        value = values[s]
        missing = math.isnan(value)
        if began[s] < 0:
            sums[after, s] = 0.0
            if missing:
                continue
            began[s], origin[s] = time, value
            recent[s, :] = value
        elif missing:
            value = recent[s, 0] if math.isnan(expected[s]) else expected[s]
        age = time - began[s]
        sums[after, s] = sums[before, s] + (value - origin[s])
        for lag in range(LAGS, 0, -1):
            recent[s, lag] = recent[s, lag - 1]
        recent[s, 0] = value
        for j in range(len(PACES)):
            smooth[s, j] += max(PACES[j], 1.0 / (age + 1)) * (value - smooth[s, j])
        _order(window[s], ordered[s], age, value)
        if not missing:
            spread[s, 0], spread[s, 1] = min(spread[s, 0], value), max(spread[s, 1], value)


@kernel
def _order(window: Floats, ordered: Floats, age: int, value: float) -> None:
    """Replace the oldest sample of the window, and keep the ordered copy in order by shifting what lies between."""
    at = age % _WINDOW
    full = age >= _WINDOW
    size = _WINDOW if full else age
    place = size
    if full:
        place = np.searchsorted(ordered, window[at])
    window[at] = value
    while place > 0 and ordered[place - 1] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    last = size - 1 if full else -1
    while place < last and ordered[place + 1] < value:
        ordered[place] = ordered[place + 1]
        place += 1
    ordered[place] = value


@kernel
def median(ordered: Floats, age: int) -> float:
    """Of the window, `age` being the number of samples before the last."""
    size = min(age + 1, _WINDOW)
    return float(0.5 * (ordered[size // 2] + ordered[(size - 1) // 2]))


@kernel
def season_mean(sums: Floats, now: int, began: int, s: int, season: int, ahead: int, reach: int, cycles: int) -> float:
    """Mean around the phase of `now + ahead`, `reach` samples to either side, over the last `cycles` seasons.

    `now` is the time of the last sample. Recent seasons weigh more; NaN where none is remembered. Less the origin.
    """
    ring = sums.shape[0]
    oldest = max(began, now + 2 - ring)
    middle = now + ahead - season * ((ahead + season - 1) // season)
    total, weights, weight = 0.0, 0.0, 1.0
    for _ in range(cycles):
        start, end = middle - reach, min(middle + reach, now) + 1
        if start < oldest:
            break
        total += weight * (sums[end % ring, s] - sums[start % ring, s]) / (end - start)
        weights += weight
        weight *= _FADE
        middle -= season
    return total / weights if weights > 0.0 else math.nan


def unrolled(history: History, now: int, stream: int) -> Floats:
    """The samples that are remembered of one stream, oldest first, `now` being the time of the last one."""
    ring = history.sums.shape[0]
    oldest = max(int(history.began[stream]), now + 2 - ring)
    sums = history.sums[np.arange(oldest, now + 2) % ring, stream]
    samples: Floats = np.diff(sums) + history.origin[stream]
    return samples
