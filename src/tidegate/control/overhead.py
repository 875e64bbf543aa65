"""The cost of control itself: time spent on measuring and deciding, as a share of the interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Overhead:
    """Totals over a number of steps.

    >>> overhead = Overhead(interval_s=1.0)
    >>> overhead.add(observing_s=0.012, deciding_s=0.001)
    >>> overhead.add(observing_s=0.008, deciding_s=0.001)
    >>> print(overhead)
    measuring takes 1.00 % of the interval and deciding 0.10 %, mean of 2 steps; the slowest observation took 12 ms
    """

    interval_s: float
    steps: int = 0
    observing_s: float = 0.0
    deciding_s: float = 0.0
    slowest_s: float = 0.0

    def add(self, observing_s: float, deciding_s: float) -> None:
        """Add one step. If the clock was set back during the step, it counts as zero time."""
        self.steps += 1
        self.observing_s += max(0.0, observing_s)
        self.deciding_s += max(0.0, deciding_s)
        self.slowest_s = max(self.slowest_s, observing_s)

    @property
    def measuring(self) -> float:
        """Share of the time spent on observing."""
        return self.observing_s / (self.steps * self.interval_s) if self.steps else 0.0

    @property
    def deciding(self) -> float:
        """Share of the time spent on deciding."""
        return self.deciding_s / (self.steps * self.interval_s) if self.steps else 0.0

    def __str__(self) -> str:
        return (
            f"measuring takes {self.measuring:.2%} of the interval and deciding {self.deciding:.2%}, mean of"
            f" {self.steps} steps; the slowest observation took {self.slowest_s * 1e3:.0f} ms"
        ).replace("%", " %")
