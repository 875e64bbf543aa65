"""What every detector of abnormal samples can do."""

from __future__ import annotations

import math
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.domain import InvalidInput

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

LARGEST = 1e100
"""Larger samples count as this: sums of their squares must stay numbers."""


class Detector(Protocol):
    """Walks one series online: what it says of a sample depends on that sample and those before it.

    Memory is bounded, and the same samples give the same scores, one at a time or many.
    """

    @property
    def threshold(self) -> float:
        """A score from here on is an alarm."""

    @property
    def strangeness(self) -> float:
        """How strange the last sample was by itself, in [0, 1], whatever alarms there were before it."""

    def score(self, value: float, time_s: float | None = None) -> float:
        """How abnormal the next sample is, in [0, 1]; then it is part of what the detector knows."""

    def walk(self, values: Floats, times_s: Floats | None = None) -> Floats:
        """The scores of the next samples in one go."""


def checked_threshold(threshold: float) -> float:
    """A threshold strictly between 0, where everything is an alarm, and 1, where nothing is."""
    if not 0.0 < threshold < 1.0:
        raise InvalidInput(f"threshold {threshold}: use a number between 0 and 1, both excluded")
    return threshold


def checked_sample(value: float, time_s: float | None) -> tuple[float, float]:
    """The sample as a kernel takes it: an unknown time is NaN there."""
    if not math.isfinite(value):
        raise InvalidInput(f"sample {value}: a series is made of finite numbers; leave unknown samples out")
    if time_s is not None and not math.isfinite(time_s):
        raise InvalidInput(f"time {time_s}: give seconds, or None where the time is not known")
    return min(max(float(value), -LARGEST), LARGEST), math.nan if time_s is None else float(time_s)


def checked_samples(values: Floats, times_s: Floats | None) -> tuple[Floats, Floats]:
    """The samples as a kernel takes them."""
    series = np.ascontiguousarray(values, dtype=np.float64)
    if series.ndim != 1 or not np.isfinite(series).all():
        raise InvalidInput("a series is one row of finite numbers; leave unknown samples out")
    series = series.clip(-LARGEST, LARGEST)
    if times_s is None:
        return series, np.full(len(series), np.nan)
    times = np.ascontiguousarray(times_s, dtype=np.float64)
    if times.shape != series.shape or not np.isfinite(times).all():
        raise InvalidInput(f"{len(series)} samples want as many finite times, or none")
    return series, times
