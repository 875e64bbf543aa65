"""In the manner of Daedalus and Phoebe (Pfister et al., Geldenhuys et al.): a learned capacity, a forecast, patience.

The capacity of an executor is a regression of throughput on busy executors, through the origin. Every minute the load
of the next 15 minutes is forecast by an autoregression on differences (ARIMA(p, 1, 0), least squares). The chosen size
is the smallest that sustains the largest forecast and clears the backlog within `recovery_s`. There is no change within
10 minutes of the last one, unless the current load exceeds the pool's capacity.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import numpy.typing as npt

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival

_ORDER = 8
_HISTORY = 120


def forecast(history: npt.NDArray[np.float64], steps: int, order: int = _ORDER) -> npt.NDArray[np.float64]:
    """ARIMA(order, 1, 0) by least squares, or the last value if there are too few samples.

    >>> forecast(np.arange(40.0), 3).round(3).tolist()
    [40.0, 41.0, 42.0]
    """
    changes = np.diff(history)
    if len(changes) < 3 * order:
        return np.full(steps, history[-1])
    lagged = np.lib.stride_tricks.sliding_window_view(changes, order)[:-1]
    design = np.column_stack([np.ones(len(lagged)), lagged])
    weights = np.linalg.lstsq(design, changes[order:], rcond=None)[0]
    recent, level, ahead = changes[-order:].tolist(), float(history[-1]), []
    bound = float(np.max(np.abs(changes)))
    for _ in range(steps):
        step = float(weights[0] + weights[1:] @ np.array(recent))
        step = min(bound, max(-bound, step))  # an unstable fit must not diverge
        level = max(0.0, level + step)
        ahead.append(level)
        recent = [*recent[1:], step]
    return np.array(ahead)


class Daedalus(Rival):
    """Sized for the largest load expected in the next quarter of an hour."""

    name = "daedalus"

    def __init__(
        self, horizon_s: float = 900.0, recovery_s: float = 600.0, pause_s: float = 600.0, busy: float = 0.9
    ) -> None:
        super().__init__()
        self.horizon_s, self.recovery_s, self.pause_s, self.busy = horizon_s, recovery_s, pause_s, busy
        self._history: deque[float] = deque(maxlen=_HISTORY)
        self._work = self._rows = 0.0
        self._changed_s = -math.inf

    def wish(self, now: Measures) -> tuple[int, str] | None:
        self._history.append(now.arrival_rows_per_s)
        # least squares through the origin of rows on busy executor-seconds, with the past discounted
        busy = now.busy_s / now.slots_per_executor
        self._work = 0.95 * self._work + busy * busy
        self._rows = 0.95 * self._rows + busy * now.done_rows
        if self._work <= 0 or self._rows <= 0:
            return None
        each = self._rows / self._work * self.busy
        steps = max(1, round(self.horizon_s / self.period_s))
        expected = max(float(np.max(forecast(np.array(self._history), steps))), now.arrival_rows_per_s)
        waiting = max(0.0, now.lag_rows - now.arrival_rows_per_s * 2 * now.interval_s)
        size = max(1, math.ceil((expected + waiting / self.recovery_s) / each - 1e-9))
        overrun = now.arrival_rows_per_s > each * now.requested
        if size == now.requested or (now.time_s - self._changed_s < self.pause_s and not overrun):
            return None
        self._changed_s = now.time_s
        return size, f"up to {expected:.0f} rows/s expected, {each:.0f} an executor"
