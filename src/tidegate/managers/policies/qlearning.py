"""Q-learning over (replicas, load level): no model, every period a sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.domain.errors import InvalidInput
from tidegate.managers.policies.decision_process import ACTIONS, STAY, DecisionProcess, Floats
from tidegate.managers.policies.localpolicy import HOLD, OperatorView, Wish
from tidegate.managers.policies.threshold import Threshold


@dataclass(slots=True)
class Experience:
    """The table, how often each entry was tried, and the steps taken. Similar operators may share one."""

    values: Floats
    tried: Floats
    steps: int = 0

    @classmethod
    def empty(cls, process: DecisionProcess) -> Experience:
        return cls(np.zeros(process.shape), np.zeros(process.shape))

    def to_plain(self) -> dict[str, Any]:
        return {
            "values": self.values.tolist(),
            "tried": self.tried.tolist(),
            "steps": self.steps,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], process: DecisionProcess) -> Experience:
        values, tried = (np.array(plain[name], float) for name in ("values", "tried"))
        if values.shape != process.shape or tried.shape != process.shape:
            raise InvalidInput(f"the Q table has shape {values.shape}, but these limits need {process.shape}; retrain")
        return cls(values, tried, int(plain["steps"]))


@dataclass(slots=True)
class QLearning:
    """`Q ← (1−α)Q + α(c + γ min Q')`, ε-greedy while it explores (Watkins 1989; rates of Russo Russo et al.).

    α falls from 1 by 2 % every ten steps to its floor; ε falls from 1 by 5 % per step to its floor.
    Without exploration, an action that was hardly tried is not taken: its value is a guess, and a table starts at 0,
    below every cost. If too little is known to judge the threshold policy's action, that action is taken.
    """

    process: DecisionProcess
    experience: Experience
    rng: np.random.Generator
    explore: bool = True
    least_alpha: float = 0.1
    least_epsilon: float = 0.01
    enough_tries: int = 10
    pause_periods: int = 2
    fallback: Threshold = field(init=False)
    _before: tuple[int, int] | None = None
    _owed: float = 0.0
    _periods: int = 0

    def __post_init__(self) -> None:
        self.fallback = Threshold(self.process.limits)

    @property
    def epsilon(self) -> float:
        return max(self.least_epsilon, 0.95**self.experience.steps) if self.explore else 0.0

    def watch(self, view: OperatorView) -> None:
        gamma = self.process.discount
        # A pause costs w_rcf. Violations during the pause are not charged again, but a queue that outlasts it counts.
        paused = view.settling and self._periods < self.pause_periods
        cost = self.process.weights.resources * view.replicas / self.process.limits.most
        self._owed += gamma**self._periods * (cost if paused else self.process.cost(0, view))
        self._periods += 1
        if view.settling:
            return  # a sample ends when the new size takes effect
        now = (view.replicas, self.process.level(view.arrival_rows_per_s))
        if self._before is not None:
            self._learn(self._before, now, self._owed, gamma**self._periods)
        self._before, self._owed, self._periods = now, 0.0, 0

    def _learn(self, before: tuple[int, int], now: tuple[int, int], cost: float, discount: float) -> None:
        # A rescue of several replicas at once counts as +1, because requesting one led to it.
        change = min(max(now[0] - before[0], -1), 1)
        cost += self.process.weights.reconfiguration * (change != 0)
        table, entry = self.experience, (*before, change + 1)
        alpha = max(self.least_alpha, 0.98 ** (table.steps / 10))
        table.values[entry] += alpha * (cost + discount * self._best(now) - table.values[entry])
        table.tried[entry] += 1
        table.steps += 1

    def _best(self, state: tuple[int, int]) -> float:
        can = self.process.allowed(state[0])
        row = self.experience.values[state]
        return min(float(row[a]) for a in range(3) if can[a])

    def propose(self, view: OperatorView) -> Wish:
        if view.settling:
            return HOLD
        k, level = view.replicas, self.process.level(view.arrival_rows_per_s)
        if self.explore and self.rng.random() < self.epsilon:
            can = self.process.allowed(k)
            change = ACTIONS[self.rng.choice([a for a in range(3) if can[a]])]
            return Wish(change, 0.0, "exploring", change)
        row, tried = self.experience.values[k, level], self.experience.tried[k, level]
        if not self.explore:
            simple = self.fallback.propose(view)
            if min(tried[STAY], tried[simple.change + 1]) < self.enough_tries:
                return simple
            row = np.where(tried >= self.enough_tries, row, np.inf)
        return self.process.wish(row, k, level, "q-learning")
