"""Q-learning over (replicas, load level): no model, every period a sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.domain.errors import InvalidInput
from tidegate.managers.policies.decision_process import ACTIONS, STAY, DecisionProcess, Floats
from tidegate.managers.policies.policy import HOLD, OperatorView, Wish
from tidegate.managers.policies.threshold import Threshold


@dataclass(slots=True)
class Experience:
    """The table, how often each entry was tried, and the steps taken. Similar operators may share one."""

    values: Floats
    tried: Floats
    error: Floats
    """Standard error of each value; known after a replay."""
    steps: int = 0
    samples: list[tuple[int, int, int, float, float, int, int]] | None = None
    """Replicas, level, action, cost, discount, replicas, level. Kept for replay while training, else None."""

    @classmethod
    def empty(cls, process: DecisionProcess) -> Experience:
        return cls(np.zeros(process.shape), np.zeros(process.shape), np.zeros(process.shape))

    def replay(self, process: DecisionProcess, enough_tries: int, sweeps: int = 1500) -> None:
        """Learn all samples repeatedly, each entry from the mean of its samples (experience replay, Lin 1992).

        This is the limit of ever smaller steps α. Actions that were hardly tried are excluded from min Q'.
        """
        if not self.samples:
            return
        k, level, action, cost, discount, k_next, level_next = (np.array(c) for c in zip(*self.samples, strict=True))
        entry = np.ravel_multi_index((k, level, action), process.shape)
        state_next = np.ravel_multi_index((k_next, level_next), process.shape[:2])
        count = np.bincount(entry, minlength=self.values.size)
        known = count >= enough_tries
        shape = (self.values.size, self.values.size // len(ACTIONS))
        from scipy.sparse import coo_array

        ahead = coo_array((discount / count[entry], (entry, state_next)), shape=shape).tocsr()
        mean_cost = np.bincount(entry, cost, minlength=self.values.size) / np.maximum(count, 1)
        values = np.where(known, 0.0, np.inf)
        for _ in range(sweeps):
            best = values.reshape(-1, len(ACTIONS)).min(axis=1)
            best[np.isinf(best)] = best[np.isfinite(best)].max()  # an unknown state counts as bad as the worst one
            values = np.where(known, mean_cost + ahead @ best, np.inf)
        squares = np.bincount(entry, (cost + discount * best[state_next]) ** 2, minlength=self.values.size)
        spread = np.sqrt(np.maximum(0.0, squares / np.maximum(count, 1) - np.where(known, values, 0.0) ** 2))
        self.values.reshape(-1)[known] = values[known]
        self.error.reshape(-1)[known] = (spread / np.sqrt(np.maximum(count, 1)))[known]
        self.samples = None

    def to_plain(self) -> dict[str, Any]:
        return {
            "values": self.values.tolist(),
            "tried": self.tried.tolist(),
            "error": self.error.tolist(),
            "steps": self.steps,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], process: DecisionProcess) -> Experience:
        values, tried, error = (np.array(plain[name], float) for name in ("values", "tried", "error"))
        if values.shape != process.shape or tried.shape != process.shape:
            raise InvalidInput(f"the Q table has shape {values.shape}, but these limits need {process.shape}; retrain")
        return cls(values, tried, error, int(plain["steps"]))


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
    sure: float = 2.0
    """Standard errors by which another action must beat the threshold policy's (after Laroche et al. 2019)."""
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
        if table.samples is not None:
            table.samples.append((*entry, cost, discount, *now))
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
            # Leave the threshold policy only if the gain exceeds chance: the minimum of noisy values is too optimistic.
            error = self.experience.error[k, level]
            doubt = self.sure * np.hypot(error, error[simple.change + 1])
            doubt[simple.change + 1] = 0.0
            row = np.where(tried >= self.enough_tries, row + doubt, np.inf)
        return self.process.wish(row, k, level, "q-learning")
