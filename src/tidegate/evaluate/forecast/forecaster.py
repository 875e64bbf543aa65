"""The port: a forecaster over a bank of streams that learns from one sample of each at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tidegate.evaluate.forecast.rows import Bools, Floats


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of every stream at 1 … `horizon` steps ahead. Arrays are streams × steps."""

    mean: Floats
    lower: Floats
    """`lower` to `upper` should contain the sample with the bank's `coverage` (0.9 by default)."""
    upper: Floats
    trusted: Bools
    """Per stream. False if the forecast does not beat the last value, or is too young: react instead."""

    def gated(self, reactive: Floats) -> Floats:
        """The mean where it is trusted, otherwise the reactive answer: each stream's current value at every step.

        >>> known = Forecast(np.array([[5.0], [5.0]]), np.zeros((2, 1)), np.ones((2, 1)), np.array([True, False]))
        >>> known.gated(np.array([1.0, 2.0])).tolist()
        [[5.0], [2.0]]
        """
        return np.where(self.trusted[:, None], self.mean, reactive[:, None])


@runtime_checkable
class Forecaster(Protocol):
    """Receives one sample of every stream at each step, and forecasts the next ones. Its state is plain arrays.

    A single stream is a bank of one. Forecasts depend only on the observed samples.
    """

    @property
    def streams(self) -> int: ...

    @property
    def horizon(self) -> int: ...

    def observe(self, values: ArrayLike) -> None:
        """Learn the next sample of every stream; NaN means missing."""
        ...

    def forecast(self) -> Forecast:
        """The next `horizon` steps of every stream, from the samples so far."""
        ...


LARGEST = 1e15
"""Larger samples are clipped to this: their squares must fit single precision."""


def samples(values: ArrayLike, streams: int) -> Floats:
    """One sample per stream. Infinite ones count as missing."""
    array = np.array(values, dtype=np.float64)
    if array.shape != (streams,):
        raise ValueError(f"one sample for each of the {streams} streams is needed, not an array of shape {array.shape}")
    array[np.isinf(array)] = np.nan
    return np.minimum(np.maximum(array, -LARGEST), LARGEST, out=array)
