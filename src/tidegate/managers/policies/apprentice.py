"""Training: learners watch while a guide decides and chance tries the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate.managers.policies.decision_process import ACTIONS, DecisionProcess
from tidegate.managers.policies.policy import HOLD, LocalPolicy, OperatorView, Wish


@dataclass(slots=True)
class Apprentice:
    """Off-policy training: the guide keeps the operator where it will work, a share of random actions explores there.

    One run teaches every learner the same samples.
    """

    process: DecisionProcess
    guide: LocalPolicy
    learners: Sequence[LocalPolicy]
    rng: np.random.Generator
    exploring: float = 0.15

    def watch(self, view: OperatorView) -> None:
        for learner in self.learners:
            learner.watch(view)

    def propose(self, view: OperatorView) -> Wish:
        if view.settling:
            return HOLD
        if self.rng.random() >= self.exploring:
            return self.guide.propose(self._as_state(view))
        can = self.process.allowed(view.replicas)
        change = int(self.rng.choice([a for a, allowed in zip(ACTIONS, can, strict=True) if allowed]))
        return Wish(change, 1.0, "exploring", change)

    def _as_state(self, view: OperatorView) -> OperatorView:
        """What the state keeps of a view: the guide must know no more than the learners.

        Else it would stay where the load lies low within its level and grow where it lies high, and staying would look
        better than it is.
        """
        limits, levels = self.process.limits, self.process.levels
        rate = (self.process.level(view.arrival_rows_per_s) + 0.5) * limits.full_rate_rows_per_s / levels
        seen = replace(view, arrival_rows_per_s=rate)
        return replace(seen, utilisation=min(1.0, limits.demand(seen) / view.replicas))
