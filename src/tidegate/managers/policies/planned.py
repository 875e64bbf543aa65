"""Wraps any planner that says how many replicas an operator should have as a local policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.managers.policies.policy import HOLD, OperatorLimits, OperatorView, Wish


@dataclass(frozen=True, slots=True)
class Planned:
    """Steps towards the size that `size_for` returns. If it returns None, nothing changes.

    >>> policy = Planned(OperatorLimits(1, 8, 1.0, 800.0), lambda view: view.arrival_rows_per_s / 80, "80 rows/s each")
    >>> policy.propose(OperatorView(2, 400.0, 0.99, 3.0)).change
    1
    """

    limits: OperatorLimits
    size_for: Callable[[OperatorView], float | None]
    name: str = "planner"

    def watch(self, view: OperatorView) -> None:
        """Does nothing: the planner observes by itself."""

    def propose(self, view: OperatorView) -> Wish:
        wanted = None if view.settling else self.size_for(view)
        if wanted is None:
            return HOLD
        target = min(max(-int(-wanted // 1), self.limits.least), self.limits.most)
        change = (target > view.replicas) - (target < view.replicas)
        if change == 0:
            return HOLD
        score = abs(wanted - view.replicas) / view.replicas + (change > 0)
        return Wish(change, score, f"{self.name} wants {wanted:.1f} replicas", change)
