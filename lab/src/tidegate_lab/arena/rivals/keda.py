"""KEDA's Kafka scaler: `⌈lag ÷ lagThreshold⌉` replicas, at most one per partition, through an HPA.

The default threshold is 10 messages, so any busy topic gets as many replicas as it has partitions. Users set it to what
a replica handles; the grid expresses it in seconds of one executor's work. Lag is read every 30 s.
https://keda.sh/docs/latest/scalers/apache-kafka/
"""

from __future__ import annotations

import math

from tidegate_lab.arena.rivals.hpa import TOLERANCE, Stabiliser
from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival


def replicas_for(lag: float, threshold: float, partitions: int, current: int) -> int:
    """HPA's rule for an average value: `⌈lag ÷ threshold⌉`, unchanged within 10 %.

    >>> replicas_for(lag=95, threshold=10, partitions=6, current=2)
    6
    >>> replicas_for(lag=41, threshold=10, partitions=6, current=4)
    4
    """
    lag = min(lag, partitions * threshold)
    if current and abs(lag / (threshold * current) - 1) <= TOLERANCE:
        return current
    return max(1, math.ceil(lag / threshold - 1e-9))


class KedaLag(Rival):
    """Replicas in proportion to the lag."""

    name = "keda-lag"
    period_s = 30.0

    def __init__(self, threshold_rows: float = 10.0, threshold_s: float | None = None) -> None:
        super().__init__()
        self.threshold_rows, self.threshold_s = threshold_rows, threshold_s
        self._calibrated: float | None = None
        self._stabiliser = Stabiliser()

    def wish(self, now: Measures) -> tuple[int, str] | None:
        threshold = self.threshold_rows
        if self.threshold_s is not None:
            if self._calibrated is None:
                self._calibrated = now.executor_rows_per_s
            if self._calibrated is None:
                return None
            threshold = self.threshold_s * self._calibrated
        wanted = replicas_for(now.lag_rows, threshold, now.partitions or 1, now.requested)
        return self._stabiliser.size(now.time_s, now.requested, wanted), f"lag of {now.lag_rows:.0f} rows"
