"""Kubernetes' horizontal pod autoscaler: the rule, its tolerance, its stabilisation window and its rate limit.

`desired = ⌈current · metric ÷ target⌉`, unchanged within 10 %. Shrinking takes the largest recommendation of the last
300 s. Growing is limited to doubling, or four pods, in 15 s (the default `behavior`). Pods that are not ready yet count
as idle when growing, so that they are not requested twice.
https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/
"""

from __future__ import annotations

import math

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival

TOLERANCE = 0.1
_READINESS_S = 30.0
"""Default `--horizontal-pod-autoscaler-initial-readiness-delay`."""


def desired_replicas(current: int, metric: float, target: float, tolerance: float = TOLERANCE) -> int:
    """The documented rule.

    >>> desired_replicas(2, metric=200, target=100), desired_replicas(2, metric=50, target=100)
    (4, 1)
    >>> desired_replicas(10, metric=105, target=100)  # within the tolerance
    10
    """
    ratio = metric / target
    return current if abs(ratio - 1) <= tolerance else math.ceil(current * ratio - 1e-9)


class Stabiliser:
    """Shrinks to the largest recommendation of a window, and grows at a limited rate."""

    def __init__(self, down_window_s: float = 300.0, period_s: float = 15.0) -> None:
        self._window_s, self._period_s = down_window_s, period_s
        self._recommended: list[tuple[float, int]] = []
        self._sizes: list[tuple[float, int]] = []

    def size(self, time_s: float, current: int, desired: int) -> int:
        """`current` is the currently requested size."""
        self._recommended = [(at_s, size) for at_s, size in self._recommended if time_s - at_s < self._window_s]
        self._recommended.append((time_s, desired))
        if desired < current:
            return min(current, max(size for _, size in self._recommended))
        self._sizes = [(at_s, size) for at_s, size in self._sizes if time_s - at_s < self._period_s]
        self._sizes.append((time_s, current))
        base = self._sizes[0][1]
        return min(desired, max(2 * base, base + 4))


class HpaCpu(Rival):
    """Utilisation relative to a target."""

    name = "hpa-cpu"
    period_s = 15.0

    def __init__(self, target: float = 0.8, down_window_s: float = 300.0) -> None:
        super().__init__()
        self.target = target
        self._stabiliser = Stabiliser(down_window_s)

    def wish(self, now: Measures) -> tuple[int, str] | None:
        wanted = self.by_cpu(now)
        if wanted is None:
            return None
        return self._stabiliser.size(now.time_s, now.requested, wanted), f"{now.utilisation or 0:.0%} busy"

    def by_cpu(self, now: Measures) -> int | None:
        if now.utilisation is None or not now.executors:
            return None
        ready = sum(age_s >= _READINESS_S for age_s in now.ages_s) or now.executors
        wanted = desired_replicas(ready, now.utilisation, self.target)
        if wanted > ready:  # starting ones count as idle: the mean is over all of them
            everybody = max(now.requested, now.executors)
            usage = now.utilisation * now.executors / everybody
            again = desired_replicas(everybody, usage, self.target)
            return max(again, everybody)
        return wanted if wanted < ready else now.requested
