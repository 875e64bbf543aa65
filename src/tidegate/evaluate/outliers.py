"""Samples to set aside: batches whose work cost far more or less than it should, and only for a few in a row.

What lasts is the new normal, so at most three samples in a row are set aside. Rows and arrivals never are: a burst is
load, not an error. Samples are judged by their logarithms, because costs vary by factors. Mean and deviation are
running estimates.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from tidegate.evaluate.table import Column, Flags, Floats

_FAR_OFF = np.log(2.0)
"""Smaller deviations do no harm: a fit over many batches tolerates them."""
_DEVIATIONS = 4.0
_LONGEST_EPISODE = 3
_YOUNG = 12
"""Samples until the usual spread is known."""
_PACE = 1 / 64


def columns(metric: str) -> dict[str, Column]:
    """Columns for one metric: count, mean and variance of its logarithm, and consecutive samples set aside."""
    return {f"{metric}_{part}": Column() for part in ("count", "mean", "variance", "episode")}


def set_aside(known: Floats, values: Floats) -> Flags:
    """Which of these values are abnormal; the others are learned. Values of 0 or less are ignored.

    `known` is metrics × remembered values (see `columns`) × applications; `values` is metrics × applications.

    >>> known = np.zeros((1, 4, 1))
    >>> for step in range(40):
    ...     assert not set_aside(known, np.array([[1.0 + 0.1 * (step % 3)]])).any()
    >>> [bool(set_aside(known, np.array([[4.0]]))[0, 0]) for _ in range(5)]
    [True, True, True, False, False]
    """
    count, mean, variance, episode = known[:, 0], known[:, 1], known[:, 2], known[:, 3]
    positive = values > 0
    logs = np.log(np.where(positive, values, 1.0))
    off = logs - mean
    spread = np.sqrt(np.maximum(variance, 1e-6))
    far = (np.abs(off) > np.maximum(_FAR_OFF, _DEVIATIONS * spread)) & positive & (count >= _YOUNG)
    learns = positive
    if far.any():
        episode[...] = np.where(far, episode + 1, np.where(positive, 0, episode))
        far &= episode <= _LONGEST_EPISODE
        learns = positive & ~far
    else:
        episode[positive] = 0.0
    pace = np.where(learns, np.maximum(_PACE, 1 / (count + 1)), 0.0)
    mean += pace * off
    variance += pace * (off * off * (1 - pace) - variance)
    count += learns
    return far


def set_aside_one(known: list[float], value: float) -> bool:
    """The same for one value of one application. `known` is updated.

    >>> known = [0.0] * 4
    >>> for step in range(40):
    ...     assert not set_aside_one(known, 1.0 + 0.1 * (step % 3))
    >>> [set_aside_one(known, 4.0) for _ in range(5)]
    [True, True, True, False, False]
    """
    if not value > 0:
        return False
    count, mean, variance, episode = known
    off = float(np.log(value)) - mean
    far = count >= _YOUNG and abs(off) > max(_FAR_OFF, _DEVIATIONS * sqrt(max(variance, 1e-6)))
    episode = episode + 1 if far else 0.0
    if far and episode <= _LONGEST_EPISODE:
        known[3] = episode
        return True
    pace = max(_PACE, 1 / (count + 1))
    known[:] = count + 1, mean + pace * off, variance + pace * (off * off * (1 - pace) - variance), episode
    return False
