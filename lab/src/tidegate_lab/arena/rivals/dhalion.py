"""Dhalion (Floratou et al., VLDB 2017): symptoms, a diagnosis, a resolution.

Back-pressure for a share b of the time: grow by `1 + b/(1 − b)`, b at most 0.9. Sources with rows pending: grow by
`1 + pending ÷ consumed`. Neither, and empty queues: shrink to 0.8.

Spark has no back-pressure signal. Its counterpart is the time in which a trigger is overdue because the previous batch
still runs, while rows pile up: b = 1 − interval ÷ batch time.
"""

from __future__ import annotations

import math

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival

MOST_PRESSURE = 0.9


def growth(back_pressure: float) -> float:
    """
    >>> growth(0.0), growth(0.5), round(growth(0.99), 6)
    (1.0, 2.0, 10.0)
    """
    b = min(back_pressure, MOST_PRESSURE)
    return 1 + b / (1 - b)


class Dhalion(Rival):
    """Grows by the measured shortage, and shrinks by a fifth when nothing waits."""

    name = "dhalion"

    def __init__(self, shrink: float = 0.8, slack: float = 1.0, period_s: float = 60.0) -> None:
        super().__init__()
        self.shrink, self.slack, self.period_s = shrink, slack, period_s

    def wish(self, now: Measures) -> tuple[int, str] | None:
        if not now.batches:  # one batch lasts longer than the period: back-pressure all the time
            if not now.lag_rows:
                return None
            return math.ceil(now.executors * growth(1.0)), "no batch was done in time"
        mean_s = sum(batch.duration_s for batch in now.batches) / len(now.batches)
        in_batch = now.arrival_rows_per_s * max(mean_s, now.interval_s)
        pending = now.lag_rows - 2 * in_batch  # rows that wait beyond the running batch and the next one
        if pending > 0 and now.lag_growth > 0 and now.done_rows:
            factor = min(growth(1.0), 1 + pending / now.done_rows)
            size = math.ceil(now.executors * factor - 1e-9)
            return max(size, now.executors + 1), f"{pending:.0f} rows pending"
        if mean_s > 2 * now.interval_s and now.lag_growth > 0:
            factor = growth(1 - now.interval_s / mean_s)
            return math.ceil(now.executors * factor - 1e-9), f"batches of {mean_s:.1f} s"
        if mean_s <= self.slack * now.interval_s:
            return max(1, math.floor(now.executors * self.shrink)), "nothing waits"
        return None
