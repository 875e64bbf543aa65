"""Rows that enter a platform in each step, for many loads at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.adapters.sim.plantstate import Floats
from tidegate.load import Constant, LoadProfile, Sinusoid


class Arrivals:
    """Evaluates loads at the middle of each step, all sinusoids and constants in one sweep.

    >>> Arrivals([(Constant(rate=10), 0.5), (Constant(rate=4), 1.0)]).rows(0.0, steps=2, step_s=2.0).tolist()
    [[10.0, 8.0], [10.0, 8.0]]
    """

    def __init__(self, loads: Sequence[tuple[LoadProfile, float]]) -> None:
        self._loads = tuple(loads)
        self._waves = [index for index, (load, _) in enumerate(loads) if isinstance(load, Sinusoid | Constant)]
        self._others = [index for index in range(len(loads)) if not isinstance(loads[index][0], Sinusoid | Constant)]
        waves = [_wave(load, share) for load, share in loads if isinstance(load, Sinusoid | Constant)]
        self._baseline, self._amplitude, self._speed, self._phase = np.array(waves).reshape(-1, 4).T.copy()
        self._kept: tuple[tuple[int, float], Floats, Floats] | None = None

    def rows(self, start_s: float, steps: int, step_s: float) -> Floats:
        """Steps × loads."""
        middles_s: Floats = start_s + (np.arange(steps, dtype=np.float64) + 0.5) * step_s
        rows = np.empty((steps, len(self._loads)))
        # sin(a + k·w) = sin a · cos kw + cos a · sin kw: the tables apply to every stretch of the same length
        cosines, sines = self._turns(steps, step_s)
        angle = middles_s[0] * self._speed + self._phase
        waves = cosines * (np.sin(angle) * self._amplitude)
        waves += sines * (np.cos(angle) * self._amplitude)
        waves += self._baseline
        np.maximum(waves, 0.0, out=waves)
        if self._others:
            rows[:, self._waves] = waves
        else:
            rows = waves
        for index in self._others:
            load, share = self._loads[index]
            rows[:, index] = load.rows_per_s(middles_s) * share
        rows *= step_s
        return rows

    def _turns(self, steps: int, step_s: float) -> tuple[Floats, Floats]:
        """Cosine and sine of the angle that each wave turns by, steps × waves. The latest result is cached."""
        if self._kept is None or self._kept[0] != (steps, step_s):
            turned = np.multiply.outer(np.arange(steps, dtype=np.float64) * step_s, self._speed)
            self._kept = (steps, step_s), np.cos(turned), np.sin(turned)
        return self._kept[1], self._kept[2]


def _wave(load: Sinusoid | Constant, share: float) -> tuple[float, float, float, float]:
    if isinstance(load, Constant):
        return load.rate * share, 0.0, 0.0, 0.0
    return load.baseline * share, load.amplitude * share, 2 * np.pi / load.period_s, load.phase
