"""Series with a known abnormality, or none, in five-minute samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DAY_ROWS, DAYS = 288, 14
ROWS = DAY_ROWS * DAYS
EVENT = 9 * DAY_ROWS + 108
"""Nine o'clock on the tenth day."""
CALM_FROM = 2 * DAY_ROWS
"""A detector has seen two days by then."""


def times_s() -> Floats:
    return 300.0 * np.arange(ROWS)


def noise(seed: int = 1, size: float = 8.0) -> Floats:
    return np.random.default_rng(seed).uniform(-size, size, ROWS)


def working_days() -> Floats:
    """20 at night, 80 from nine to six."""
    row = np.arange(ROWS) % DAY_ROWS
    return np.where((row >= 108) & (row < 216), 80.0, 20.0)


def sine() -> Floats:
    return 50.0 + 30.0 * np.sin(2.0 * np.pi * np.arange(ROWS) / DAY_ROWS)


def changed(series: Floats, rows: int, to: Floats | float) -> Floats:
    """`series` with `rows` other samples from the event on."""
    result = series.copy()
    result[EVENT : EVENT + rows] = to
    return result


CALM: dict[str, Floats] = {
    "constant": np.full(ROWS, 45.0),
    "square wave": working_days(),
    "working days with noise": working_days() + noise(size=2.0),
    "sine": sine(),
}
ABNORMAL: dict[str, Floats] = {
    "spike": changed(20.0 + noise(), 2, 90.0),
    "dip": changed(20.0 + noise(), 2, -50.0),
    "jump up": changed(working_days() + noise(), 108, 140.0),
    "jump down": changed(working_days() + noise(), 108, -10.0),
    "a holiday": changed(working_days() + noise(), 108, 20.0 + noise(2)[:108]),
    "level shift": changed(20.0 + noise(), ROWS - EVENT, 45.0 + noise()[EVENT:]),
    "restless": changed(20.0 + noise(size=3.0), 200, 20.0 + noise(3, size=15.0)[:200]),
    "fallen flat": changed(20.0 + noise(), 100, 22.0),
    "first life sign": changed(np.zeros(ROWS), 3, 7.0),
}
