"""What the sizes of a pool lead to, as the last rollout saw it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Outcomes:
    """What each size leads to: one value per size."""

    sizes: list[int]
    cost: list[float]
    late_share: dict[str, list[float]]
    """By application: expected share of rows over the objective."""
    p99_s: dict[str, list[float]]
    horizon_s: float
    peak: int = 0
    """Executors that the highest expected load needs."""
    comfortable: int = 0
    """The smallest size that holds with room to spare."""

    def at(self, size: int) -> int:
        """Where this size stands, or the next one to it: of very many sizes only some are rolled out."""
        if size in self.sizes:
            return self.sizes.index(size)
        return min(range(len(self.sizes)), key=lambda place: abs(self.sizes[place] - size))
