"""The threshold policy: scale out above T, scale in if one replica fewer would still stay well below T."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.managers.policies.localpolicy import HOLD, OperatorLimits, OperatorView, Wish


@dataclass(frozen=True, slots=True)
class Threshold:
    """+1 if `u > T`; −1 if `k > 1` and `u·k/(k−1) < c·T`, with u of the worst instance (Nardelli et al., E2DF).

    >>> policy = Threshold(OperatorLimits(1, 4, objective_s=1, full_rate_rows_per_s=400))
    >>> [policy.propose(OperatorView(2, 0, u, 0.1)).change for u in (0.8, 0.5, 0.2)]
    [1, 0, -1]
    """

    limits: OperatorLimits
    upper: float = 0.7
    margin: float = 0.75

    def __post_init__(self) -> None:
        if not (0 < self.upper < 1 and 0 < self.margin < 1):
            raise ValueError(f"threshold and margin must be between 0 and 1, not {self.upper} and {self.margin}")

    def watch(self, view: OperatorView) -> None:
        """Nothing to learn."""

    def propose(self, view: OperatorView) -> Wish:
        if view.settling:
            return HOLD
        k, u = view.replicas, view.utilisation
        if u > self.upper and k < self.limits.most:
            # Growing takes precedence over shrinking: a token saved on idle replicas may save an objective.
            return Wish(1, 1.0 + u - self.upper, f"utilisation {u:.2f} above {self.upper:g}", 1)
        after = u * k / (k - 1) if k > 1 else 1.0
        if k > self.limits.least and after < self.margin * self.upper:
            return Wish(-1, self.margin * self.upper - after, f"{after:.2f} busy with one replica fewer", -1)
        return HOLD
