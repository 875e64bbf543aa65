"""How batch times vary around their prediction, and how long batches then wait for one another.

A batch of k rows that takes T, of which tasks run for t, varies with `σ² = (c_S·T)² + (c_A·t)²/k`: its own speed, and
the random number of rows. Batches that usually fit into their interval I sometimes do not, and the next one then starts
late. That is a queue with one server, an arrival every I (C_D = 0) and service T. Allen–Cunneen gives its mean wait, `W
= ρ·T/(1 − ρ) · C²/2` with ρ = T/I and C = σ/T, an upper estimate for even arrivals. Overrunning batches merge, which
the formula ignores, so the wait is limited to half a standard deviation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_WAIT = 0.5


def batch_deviation_s(batch_s: Floats, busy_s: Floats, rows: Floats, cv_service: float, cv_arrival: float) -> Floats:
    """Standard deviation of a batch's time. `busy_s` is the part in which its tasks run.

    >>> batch_deviation_s(np.array([2.0]), np.array([1.0]), np.array([100.0]), 0.0, 1.0).tolist()
    [0.1]
    """
    by_rows = np.maximum(rows, 1.0)
    deviation: Floats = np.sqrt((cv_service * batch_s) ** 2 + (cv_arrival * busy_s) ** 2 / by_rows)
    return deviation


def overrun_s(batch_s: Floats, deviation_s: Floats, interval_s: Floats) -> Floats:
    """Mean wait of a batch for the previous one, with one server and an arrival every interval.

    >>> overrun_s(np.array([0.8, 2.0]), np.array([0.08, 0.2]), np.array([1.0, 1.0])).round(4).tolist()
    [0.016, 0.1]
    """
    spare_s = np.maximum(interval_s - batch_s, 1e-9)
    # ρ·T/(1 − ρ)·C²/2 = σ²/(2(I − T))
    wait_s: Floats = np.minimum(deviation_s**2 / (2 * spare_s), _MOST_WAIT * deviation_s)
    return wait_s
