"""Model-based reinforcement learning: load transitions and the cost of violations are learned, the rest is known.

A full backup over all states is one matrix product, so it can be repeated every few periods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.domain.errors import InvalidInput
from tidegate.managers.policies.decision_process import DecisionProcess, Floats
from tidegate.managers.policies.localpolicy import HOLD, OperatorView, Wish


@dataclass(slots=True)
class LearnedModel:
    """Counts of level → level, the cost of violations ĉ(k, λ), and Q. Similar operators may share one."""

    counts: Floats
    late: Floats
    seen: Floats
    """Periods spent at (k, λ)."""
    values: Floats
    watched: int = 0

    @classmethod
    def empty(cls, process: DecisionProcess) -> LearnedModel:
        """`p` starts from the identity. ĉ starts with what is known: more work than replicas violates the objective."""
        replicas, levels, _ = process.shape
        work = (np.arange(levels) + 0.5) * process.limits.most / levels
        late = (work[None, :] > np.arange(replicas)[:, None]).astype(float)
        return cls(np.eye(levels), late, np.zeros((replicas, levels)), np.zeros(process.shape))

    def to_plain(self) -> dict[str, Any]:
        return {
            "counts": self.counts.tolist(),
            "late": self.late.tolist(),
            "seen": self.seen.tolist(),
            # Disallowed actions have infinite cost, which not every storage of plain values supports.
            "values": np.where(np.isfinite(self.values), self.values, 0.0).tolist(),
            "watched": self.watched,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], process: DecisionProcess) -> LearnedModel:
        counts, late, seen, values = (np.array(plain[name], float) for name in ("counts", "late", "seen", "values"))
        model = cls(counts, late, seen, values, int(plain["watched"]))
        replicas, levels, _ = process.shape
        if model.values.shape != process.shape or model.late.shape != (replicas, levels):
            raise InvalidInput(
                f"the model has shape {model.values.shape}, but these limits need {process.shape}; retrain"
            )
        model.values[process.limits.least, :, 0] = np.inf
        model.values[process.limits.most, :, 2] = np.inf
        return model


@dataclass(slots=True)
class ModelBased:
    """Q(s,a) = w_rcf·1[a≠0] + w_res·k'/K_max + Σ_λ' p(λ'|λ) [w_slo·ĉ(k',λ') + γ min Q((k',λ'),·)]."""

    process: DecisionProcess
    model: LearnedModel
    least_alpha: float = 0.02
    backup_every: int = 20
    """Periods between full backups. A learner shared by many operators counts the periods of all of them."""
    _level: int | None = None
    _free_cost: Floats = field(init=False)

    def __post_init__(self) -> None:
        replicas = np.arange(self.process.limits.most + 1)
        self._free_cost = self.process.weights.resources * replicas / self.process.limits.most
        if self.model.watched == 0:
            self.backup(sweeps=500)

    def watch(self, view: OperatorView) -> None:
        level = self.process.level(view.arrival_rows_per_s)
        if self._level is not None:
            self.model.counts[self._level, level] += 1
        self._level = level
        if not view.settling:
            self._learn_late(view.replicas, level, float(self.process.violates(view)))
        self.model.watched += 1
        if self.model.watched % self.backup_every == 0:
            self.backup()

    def _learn_late(self, replicas: int, level: int, late: float) -> None:
        """`ĉ ← (1−α)ĉ + α·u`, kept monotone: more load is never better at one size, nor fewer replicas at one load."""
        row, before = self.model.late[replicas], self.model.late[replicas, level]
        self.model.seen[replicas, level] += 1
        # First a mean, so that the initial guess is soon forgotten; later an exponential average.
        alpha = max(self.least_alpha, 1.0 / (1.0 + self.model.seen[replicas, level]))
        after = (1 - alpha) * before + alpha * late
        row[level] = after
        if after > before:
            np.maximum(row[level:], after, out=row[level:])
            worse = self.model.late[:replicas, level:]
            np.maximum(worse, after, out=worse)
        else:
            np.minimum(row[: level + 1], after, out=row[: level + 1])
            better = self.model.late[replicas:, : level + 1]
            np.minimum(better, after, out=better)

    def backup(self, sweeps: int = 1) -> None:
        """Value iteration over every state at once."""
        w, limits, values = self.process.weights, self.process.limits, self.model.values
        p = self.model.counts / self.model.counts.sum(axis=1, keepdims=True)
        k = np.arange(limits.least, limits.most + 1)
        for _ in range(sweeps):
            # The value of reaching k' replicas at level λ, whichever action led there:
            reach = (
                self._free_cost[k][:, None]
                + (w.objective * self.model.late[k] + self.process.discount * values[k].min(axis=2)) @ p.T
            )
            values[k, :, 1] = reach
            values[k[1:], :, 0] = w.reconfiguration + reach[:-1]
            values[k[:-1], :, 2] = w.reconfiguration + reach[1:]
            values[limits.least, :, 0] = np.inf
            values[limits.most, :, 2] = np.inf

    def propose(self, view: OperatorView) -> Wish:
        if view.settling:
            return HOLD
        level = self.process.level(view.arrival_rows_per_s)
        return self.process.wish(self.model.values[view.replicas, level], view.replicas, level, "model")
