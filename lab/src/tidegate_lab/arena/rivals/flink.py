"""The autoscaler of the Flink Kubernetes operator.

Over a metrics window: true processing rate = rows ÷ busy time. The required capacity is

    target ÷ utilisation  +  lag ÷ catch-up  +  target · restart ÷ catch-up

and parallelism is scaled by capacity ÷ true rate, within [0.4, 1 + max growth]. Nothing changes while the true rate
lies in the band given by utilisation ± boundary. After a change the metrics of the stabilisation interval are discarded
and the window fills again. Shrinking waits for an interval and takes the largest recommendation in it.
https://nightlies.apache.org/flink/flink-kubernetes-operator-docs-main/docs/custom-resource/autoscaler/
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import ClassVar

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival

LEAST_FACTOR = 0.4
MOST_FACTOR = 1 + 100_000.0


def capacity(target: float, utilisation: float, lag: float, catch_up_s: float, restart_s: float) -> float:
    """Required capacity in rows per second.

    >>> capacity(70.0, utilisation=0.7, lag=0.0, catch_up_s=0.0, restart_s=0.0)
    100.0
    >>> capacity(70.0, utilisation=0.7, lag=1800.0, catch_up_s=1800.0, restart_s=0.0)
    101.0
    """
    if catch_up_s <= 0:
        return target / utilisation
    return target / utilisation + lag / catch_up_s + target * restart_s / catch_up_s


def new_parallelism(current: int, wanted: float, true_rate: float) -> int:
    """
    >>> new_parallelism(10, wanted=50 / 0.8, true_rate=100.0), new_parallelism(2, wanted=100 / 0.5, true_rate=40.0)
    (7, 10)
    """
    factor = min(MOST_FACTOR, max(LEAST_FACTOR, wanted / true_rate))
    return math.ceil(current * factor - 1e-9)


@dataclass(frozen=True, slots=True)
class FlinkSettings:
    """Settings of the autoscaler (`job.autoscaler.*`), with their published defaults."""

    window_s: float = 900.0
    """Over this window metrics are averaged."""
    stabilisation_s: float = 300.0
    """Metrics are discarded for this long after a change."""
    utilisation: float = 0.7
    boundary: float = 0.3
    """Half the width of the band around the utilisation."""
    catch_up_s: float = 1800.0
    """Time in which a lag should be worked off. 0: neither lag nor a restart counts."""
    restart_s: float = 300.0
    down_interval_s: float = 3600.0
    """How long shrinking waits."""


class Flink(Rival):
    """Averages over a window, with a band and a delay before shrinking."""

    name = "flink"
    defaults: ClassVar[FlinkSettings] = FlinkSettings()

    def __init__(self, settings: FlinkSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or self.defaults
        self._window: deque[Measures] = deque()
        self._from_s = 0.0
        self._smaller: list[tuple[float, int]] = []

    @classmethod
    def with_changes(cls, **changes: float) -> Flink:
        """The defaults, except for these settings."""
        return cls(replace(cls.defaults, **changes))

    @classmethod
    def faster(cls, by: float) -> Flink:
        """The defaults with all times divided, for a load that is played faster than it was recorded.

        >>> Flink.faster(90.0).settings.window_s, Flink.faster(90.0).period_s
        (10.0, 1.0)
        """
        times = ("window_s", "stabilisation_s", "catch_up_s", "restart_s", "down_interval_s")
        made = cls.with_changes(**{name: getattr(cls.defaults, name) / by for name in times})
        made.period_s = max(1.0, cls.period_s / by)
        return made

    def wish(self, now: Measures) -> tuple[int, str] | None:
        if now.time_s < self._from_s:
            return None
        self._window.append(now)
        while self._window[0].time_s <= now.time_s - self.settings.window_s:
            self._window.popleft()
        if sum(each.span_s for each in self._window) < self.settings.window_s - 1e-6:
            return None
        arrived = sum(each.arrived_rows for each in self._window) / sum(each.span_s for each in self._window)
        done, busy_s = sum(each.done_rows for each in self._window), sum(each.busy_s for each in self._window)
        if not done or not busy_s:
            return None
        true_rate = done / busy_s * now.slots_per_executor * now.executors
        size = self.after(now.executors, arrived, true_rate, now.lag_rows)
        return self._patient(now, size, f"{arrived:.0f} rows/s arrive, {true_rate:.0f} could be done")

    def after(self, current: int, target: float, true_rate: float, lag: float) -> int:
        """The new size. Inside the band it stays the same."""
        settings = self.settings
        most, least = settings.utilisation + settings.boundary, settings.utilisation - settings.boundary
        too_slow = true_rate < capacity(target, most, lag, settings.catch_up_s, 0.0)
        too_fast = true_rate > capacity(target, least, lag, settings.catch_up_s, settings.restart_s)
        if not too_slow and not too_fast:
            return current
        wanted = capacity(target, settings.utilisation, lag, settings.catch_up_s, settings.restart_s)
        return max(1, new_parallelism(current, wanted, true_rate))

    def _patient(self, now: Measures, size: int, text: str) -> tuple[int, str] | None:
        if size >= now.executors:
            self._smaller = []
        if size < now.executors:
            self._smaller.append((now.time_s, size))
            if now.time_s - self._smaller[0][0] < self.settings.down_interval_s:
                return None
            size = max(each for _, each in self._smaller)
        if size == now.executors:
            return None
        self._smaller, self._from_s = [], now.time_s + self.settings.stabilisation_s
        self._window.clear()
        return size, text


class FlinkMinute(Flink):
    """The same with a window of a minute, as users who care about latency set it."""

    name = "flink-1min"
    defaults = FlinkSettings(
        window_s=60.0, stabilisation_s=60.0, catch_up_s=300.0, restart_s=30.0, down_interval_s=300.0
    )
