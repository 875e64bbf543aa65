"""Everything the controller remembers between steps, in one object that can be saved and restored exactly."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

from tidegate.domain import Prediction, Targets
from tidegate.domain.arrayjson import pack, unpack
from tidegate.domain.codec import from_tree, to_tree
from tidegate.evaluate.evaluator import EvaluationMemory
from tidegate.plan.guards import GuardMemory

VERSION = 2


@dataclass(slots=True)
class Outstanding:
    """A prediction that is not judged yet, and the rows its application had processed when it was made."""

    step: int
    prediction: Prediction
    rows: float
    late_rows: float
    executors_before: int = 0
    """Requested when it was made."""
    latencies: dict[int, float] = field(default_factory=dict)
    """Rows committed since, by latency in logarithmic steps."""
    open_rows: float | None = None
    """Rows that had arrived when it fell due and are not committed yet; None before."""


@dataclass(slots=True)
class Knowledge:
    """The controller's whole state. With the same observations and receipts it makes the same decisions."""

    evaluation: EvaluationMemory = field(default_factory=EvaluationMemory)
    targets: Targets = field(default_factory=Targets)
    guards: GuardMemory = field(default_factory=GuardMemory)
    outstanding: list[Outstanding] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)
    """Memories of planner and proposers, by name. They stay in their saved form until their owners read them."""

    def to_bytes(self) -> bytes:
        return pack(
            {
                "version": VERSION,
                "evaluation": self.evaluation.state(),
                "targets": to_tree(self.targets),
                "guards": to_tree(self.guards),
                "outstanding": [to_tree(one) for one in self.outstanding],
                "parts": {name: part if isinstance(part, dict) else to_tree(part) for name, part in self.parts.items()},
            }
        )

    @classmethod
    def from_bytes(cls, body: bytes) -> Knowledge | None:
        """None if it is damaged or another version saved it. Everything then has to be learned again."""
        try:
            found = unpack(body)
        except (ValueError, zlib.error):
            return None
        if not isinstance(found, dict) or found.get("version") != VERSION:
            return None
        evaluation = EvaluationMemory()
        evaluation.restore(found["evaluation"])
        return cls(
            evaluation=evaluation,
            targets=from_tree(Targets, found["targets"]),
            guards=from_tree(GuardMemory, found["guards"]),
            outstanding=[from_tree(Outstanding, one) for one in found["outstanding"]],
            parts=dict(found["parts"]),
        )
