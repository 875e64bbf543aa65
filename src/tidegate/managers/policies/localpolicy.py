"""The input and output of every local policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OperatorView:
    """One operator over the last period, as its own host sees it."""

    replicas: int
    arrival_rows_per_s: float
    utilisation: float
    """Busy share of its worst instance, 0 to 1."""
    response_s: float
    """95th percentile of waiting plus service time over the period."""
    settling: bool = False
    """It was reconfigured in this period, so response and utilisation say nothing about its size."""
    newest_rows_per_s: float = 0.0
    """Arrivals in the last part of the period; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """Limits of one operator: its size, its share of the objective, and the rate that `most` replicas can process."""

    least: int
    most: int
    objective_s: float
    full_rate_rows_per_s: float

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"replicas must satisfy 1 ≤ least ≤ most, not least {self.least} and most {self.most}")
        if not (self.objective_s > 0 and self.full_rate_rows_per_s > 0):
            raise ValueError("an operator's objective and full rate must be positive")

    def demand(self, view: OperatorView) -> float:
        """Arriving work in replicas: λ ÷ (rate of one replica)."""
        return self.replicas_for(view.arrival_rows_per_s)

    def replicas_for(self, rows_per_s: float) -> float:
        return rows_per_s * self.most / self.full_rate_rows_per_s


@dataclass(frozen=True, slots=True)
class Wish:
    """The change a policy wants, its value, and what it would want if changes were free."""

    change: int
    score: float
    reason: str
    free_change: int = 0


HOLD = Wish(0, 0.0, "hold")


class LocalPolicy(Protocol):
    """Proposes −1, 0 or +1 replicas from what one host can see. A learning policy learns in `watch`."""

    def watch(self, view: OperatorView) -> None:
        """Observe a period, whatever was done in it."""

    def propose(self, view: OperatorView) -> Wish:
        """The change wanted now. Replicas stay within the limits."""
