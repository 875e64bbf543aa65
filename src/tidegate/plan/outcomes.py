"""Predicted outcomes of the pool sizes, from the last rollout."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Outcomes:
    """The outcome of each size: one value per size."""

    sizes: list[int]
    cost: list[float]
    late_share: dict[str, list[float]]
    """By application: expected share of rows over the objective."""
    p99_s: dict[str, list[float]]
    horizon_s: float
    peak: int = 0
    """Executors needed for the highest expected load."""
    comfortable: int = 0
    """The smallest size that holds the objective with a margin."""

    def at(self, size: int) -> int:
        """Index of this size or of the closest one. If there are very many sizes, only some are rolled out."""
        if size in self.sizes:
            return self.sizes.index(size)
        return min(range(len(self.sizes)), key=lambda place: abs(self.sizes[place] - size))
