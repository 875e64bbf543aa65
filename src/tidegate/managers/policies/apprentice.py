"""Training: a guide decides, random actions explore, and learners watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate.managers.policies.decision_process import ACTIONS, DecisionProcess
from tidegate.managers.policies.policy import HOLD, LocalPolicy, OperatorView, Wish


@dataclass(slots=True)
class Apprentice:
    """Off-policy training: the guide keeps the operator in its working range, and random actions explore there.

    One run gives every learner the same samples.
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
        """The view reduced to the state, because the guide must not know more than the learners.

        Otherwise it would stay when the load is low within its level and grow when it is high, and staying would look
        better than it is.
        """
        limits, levels = self.process.limits, self.process.levels
        rate = (self.process.level(view.arrival_rows_per_s) + 0.5) * limits.full_rate_rows_per_s / levels
        seen = replace(view, arrival_rows_per_s=rate)
        return replace(seen, utilisation=min(1.0, limits.demand(seen) / view.replicas))
