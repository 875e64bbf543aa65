"""The decision process that both learning policies share: state (replicas, load level), actions, cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.managers.policies.localpolicy import OperatorLimits, OperatorView, Wish

Floats = npt.NDArray[np.float64]
ACTIONS = (-1, 0, 1)
STAY = 1  # the index of action 0


@dataclass(frozen=True, slots=True)
class Weights:
    """Cost of a period: `w_rcf·1[a≠0] + w_slo·1[R > R_slo] + w_res·k/K_max`; the weights sum to 1."""

    reconfiguration: float = 0.2
    objective: float = 0.6
    resources: float = 0.2

    def __post_init__(self) -> None:
        values = (self.reconfiguration, self.objective, self.resources)
        if min(values) < 0 or abs(sum(values) - 1) > 1e-9:
            raise ValueError(f"weights must be 0 or more and sum to 1, not {values}")


@dataclass(frozen=True, slots=True)
class DecisionProcess:
    """Discretises an operator's load, `level = min(⌊λ ÷ (λ_max/L)⌋, L − 1)`, and prices each period.

    >>> process = DecisionProcess(OperatorLimits(1, 10, objective_s=1, full_rate_rows_per_s=100))
    >>> process.level(0), process.level(50), process.level(1e9)
    (0, 15, 29)
    """

    limits: OperatorLimits
    weights: Weights = Weights()
    levels: int = 30
    discount: float = 0.99

    def __post_init__(self) -> None:
        if self.levels < 2 or not 0 <= self.discount < 1:
            raise ValueError("a decision process needs at least two levels and a discount below 1")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Replicas 0 … K_max (row 0 unused) × levels × actions."""
        return self.limits.most + 1, self.levels, len(ACTIONS)

    def level(self, rate_rows_per_s: float) -> int:
        return min(int(rate_rows_per_s * self.levels / self.limits.full_rate_rows_per_s), self.levels - 1)

    def violates(self, view: OperatorView) -> bool:
        return view.response_s > self.limits.objective_s

    def cost(self, change: int, view: OperatorView) -> float:
        """The cost of a period that ends in `view` after `change`."""
        w = self.weights
        return (
            w.reconfiguration * (change != 0)
            + w.objective * self.violates(view)
            + w.resources * view.replicas / self.limits.most
        )

    def allowed(self, replicas: int) -> tuple[bool, bool, bool]:
        return replicas > self.limits.least, True, replicas < self.limits.most

    def wish(self, values: Floats, replicas: int, level: int, what: str) -> Wish:
        """The cheapest action of a row of Q; on a tie, stay. `values` is infinite for actions that are not allowed."""
        minus, stay, plus = (float(v) for v in values)
        can_shrink, _, can_grow = self.allowed(replicas)
        minus = minus if can_shrink else np.inf
        plus = plus if can_grow else np.inf
        saved = self.weights.reconfiguration
        free = -1 if minus - saved < min(stay, plus - saved) else 1 if plus - saved < stay else 0
        if minus < min(stay, plus):
            return Wish(-1, stay - minus, f"{what}: −1 is worth {stay - minus:.3f} at level {level}", free)
        if plus < stay:
            return Wish(1, stay - plus, f"{what}: +1 is worth {stay - plus:.3f} at level {level}", free)
        return Wish(0, 0.0, f"{what}: stay at level {level}", free)
