"""Service classes: what each promises and what it weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tidegate.domain.objective import Objective
from tidegate.domain.section import PositiveSeconds, Section, Share


@dataclass(frozen=True, slots=True)
class QosClass:
    """A service class ⟨r*, V⟩ with its weight: the delay it tolerates and the share of rows that may exceed it."""

    latency_s: float = 10.0
    percentile: float = 0.99
    violations: float = 0.05
    window_s: float = 60.0
    weight: float = 1.0
    floor: float = 0.1


class QosClassRule(Section):
    """A service class as the policy states it; what it leaves out of its objective is the policy's."""

    latency_s: PositiveSeconds | None = Field(
        None, description="A row should be done within this many seconds; default: `objective.latency_s`."
    )
    percentile: Share | None = Field(
        None, description="The share of rows that must meet it; default: `objective.percentile`."
    )
    violations: Share = Field(0.05, description="Upper bound on the share of rows over the objective in any window.")
    window_s: PositiveSeconds = Field(60.0, description="The window in which violations are counted, in seconds.")
    weight: Annotated[float, Field(gt=0)] = Field(1.0, description="Importance when capacity is short.")
    floor: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="Share of its arriving rows that is always served, even when capacity is short."
    )

    def with_objective(self, objective: Objective) -> QosClass:
        """The class as it holds for an application with this objective."""
        return QosClass(
            objective.latency_s, objective.percentile, self.violations, self.window_s, self.weight, self.floor
        )
