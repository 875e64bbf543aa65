"""The windowed Gaussian: the baseline of the Numenta Anomaly Benchmark, for comparison."""

from __future__ import annotations

import math

import numpy as np

from tidegate.accelerate import kernel
from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality.detector import Floats, Ints, checked_sample, checked_samples, checked_threshold
from tidegate.evaluate.abnormality.sortedhistory import ordered_sum

GAUSSIAN_THRESHOLD = 1.0 - 1e-12
"""Seven standard deviations: real series are far from normal, and a lower threshold gives many false alarms."""
WINDOW_ROWS = 1000
"""The value tuned by the benchmark's authors."""
_LEAST_DEVIATION = 1e-6


@kernel
def observe(value: float, window: Floats, seen: Ints) -> float:
    """1 − Q(|value − mean| / deviation) over the samples before it. The sample then replaces the oldest one."""
    score = 0.0
    filled = min(seen[0], len(window))
    if filled > 0:
        mean = ordered_sum(window[:filled]) / filled
        distance = window[:filled] - mean
        deviation = math.sqrt(ordered_sum(distance * distance) / filled)
        if deviation == 0.0:
            deviation = _LEAST_DEVIATION
        score = 1.0 - 0.5 * math.erfc(abs(value - mean) / (deviation * math.sqrt(2.0)))
    window[seen[0] % len(window)] = value
    seen[0] += 1
    return score


@kernel
def observe_all(values: Floats, window: Floats, seen: Ints) -> Floats:
    """`observe` over a whole series."""
    scores = np.empty(len(values))
    for row in range(len(values)):
        scores[row] = observe(values[row], window, seen)
    return scores


class WindowedGaussian:
    """Scores a sample by its tail probability under a normal distribution fitted to the last thousand, without times.

    >>> detector = WindowedGaussian()
    >>> calm = [detector.score(10.0 + (row % 7)) for row in range(200)]
    >>> round(detector.score(13.0), 1), detector.score(60.0) >= detector.threshold
    (0.5, True)
    """

    def __init__(self, threshold: float = GAUSSIAN_THRESHOLD, window_rows: int = WINDOW_ROWS) -> None:
        if window_rows < 1:
            raise InvalidInput(f"a window of {window_rows} rows is too short: use 1 or more")
        self._threshold = checked_threshold(threshold)
        self._strangeness = 0.0
        self._window = np.zeros(window_rows)
        self._seen = np.zeros(1, dtype=np.int64)

    @property
    def threshold(self) -> float:
        return self._threshold

    @property
    def strangeness(self) -> float:
        return self._strangeness

    def score(self, value: float, time_s: float | None = None) -> float:
        self._strangeness = observe(checked_sample(value, time_s)[0], self._window, self._seen)
        return self._strangeness

    def walk(self, values: Floats, times_s: Floats | None = None) -> Floats:
        scores = observe_all(checked_samples(values, times_s)[0], self._window, self._seen)
        if len(scores):
            self._strangeness = float(scores[-1])
        return scores
