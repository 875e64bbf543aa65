"""The interface of detectors of abnormal samples."""

from __future__ import annotations

import math
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.domain import InvalidInput

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

LARGEST = 1e100
"""Larger samples are clipped to this, so that sums of their squares stay finite."""


class Detector(Protocol):
    """Processes one series online: the score of a sample depends only on it and the samples before it.

    Memory is bounded, and the same samples give the same scores, one at a time or many at once.
    """

    @property
    def threshold(self) -> float:
        """A score of at least this is an alarm."""

    @property
    def strangeness(self) -> float:
        """How strange the last sample was by itself, in [0, 1], regardless of earlier alarms."""

    def score(self, value: float, time_s: float | None = None) -> float:
        """How abnormal the next sample is, in [0, 1]. The detector then learns it."""

    def walk(self, values: Floats, times_s: Floats | None = None) -> Floats:
        """The scores of the next samples, all at once."""


def checked_threshold(threshold: float) -> float:
    """A threshold strictly between 0 (everything is an alarm) and 1 (nothing is)."""
    if not 0.0 < threshold < 1.0:
        raise InvalidInput(f"threshold {threshold}: use a number between 0 and 1, both excluded")
    return threshold


def checked_sample(value: float, time_s: float | None) -> tuple[float, float]:
    """The sample in the form that kernels take: NaN for an unknown time."""
    if not math.isfinite(value):
        raise InvalidInput(f"sample {value}: samples must be finite numbers; leave out unknown ones")
    if time_s is not None and not math.isfinite(time_s):
        raise InvalidInput(f"time {time_s}: give seconds, or None if the time is unknown")
    return min(max(float(value), -LARGEST), LARGEST), math.nan if time_s is None else float(time_s)


def checked_samples(values: Floats, times_s: Floats | None) -> tuple[Floats, Floats]:
    """The samples in the form that kernels take."""
    series = np.ascontiguousarray(values, dtype=np.float64)
    if series.ndim != 1 or not np.isfinite(series).all():
        raise InvalidInput("a series must be one row of finite numbers; leave out unknown samples")
    series = series.clip(-LARGEST, LARGEST)
    if times_s is None:
        return series, np.full(len(series), np.nan)
    times = np.ascontiguousarray(times_s, dtype=np.float64)
    if times.shape != series.shape or not np.isfinite(times).all():
        raise InvalidInput(f"{len(series)} samples: give one finite time for each, or no times")
    return series, times
