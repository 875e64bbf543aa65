"""The latency objective of an application."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Objective:
    """`percentile` of the rows are done within `latency_s` of their arrival.

    >>> Objective(latency_s=5).violation_bound
    0.01
    """

    latency_s: float
    percentile: float = 0.99

    def __post_init__(self) -> None:
        if not self.latency_s > 0:
            raise ValueError(f"the latency of an objective must be above 0, not {self.latency_s}")
        if not 0 < self.percentile < 1:
            raise ValueError(f"a percentile must be between 0 and 1, not {self.percentile}")

    @property
    def violation_bound(self) -> float:
        """The share of rows that may exceed the objective."""
        return round(1 - self.percentile, 12)
