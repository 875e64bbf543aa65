"""HPA for Flink after Varga, Balassi and Kiss (2021): the larger of a CPU rule and a lag rule.

While the lag is above a bound, `⌈replicas · (1 + lag growth ÷ consumption)⌉` keeps it from growing further. Here the
bound is a time, 60 s of consumption, because a number of rows means something different in every job.
"""

from __future__ import annotations

import math

from tidegate_lab.arena.rivals.hpa import HpaCpu
from tidegate_lab.arena.rivals.measures import Measures


def by_lag(replicas: int, lag_growth_per_s: float, consumed_per_s: float) -> int:
    """
    >>> by_lag(4, lag_growth_per_s=50.0, consumed_per_s=100.0)
    6
    """
    return math.ceil(replicas * (1 + lag_growth_per_s / consumed_per_s) - 1e-9)


class HpaVarga(HpaCpu):
    """CPU and lag, the larger of the two."""

    name = "hpa-varga"

    def __init__(self, target: float = 0.8, lag_s: float = 60.0, down_window_s: float = 300.0) -> None:
        super().__init__(target, down_window_s)
        self.lag_s = lag_s

    def wish(self, now: Measures) -> tuple[int, str] | None:
        wanted = self.by_cpu(now)
        if wanted is None:
            return None
        text = f"{now.utilisation or 0:.0%} busy"
        consumed = now.done_rows_per_s
        if consumed > 0 and now.lag_rows / consumed > self.lag_s:
            for_lag = by_lag(now.requested, max(0.0, now.lag_growth / now.span_s), consumed)
            wanted, text = max(wanted, for_lag), f"{text}, lag of {now.lag_rows / consumed:.0f} s"
        return self._stabiliser.size(now.time_s, now.requested, wanted), text
