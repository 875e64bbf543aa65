"""Service classes: what each promises, what it weighs, and how predictive control shares a host among them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.domain.objective import Objective
from tidegate.domain.section import PositiveSeconds, Section, Share


class QosClassRule(Section):
    """A service class ⟨r*, V⟩ with its weight: the delay it tolerates and the share of rows that may exceed it."""

    latency_s: PositiveSeconds = Field(10.0, description="The largest delay tolerated.")
    percentile: Share = Field(0.99, description="The share of rows that must keep it.")
    violations: Share = Field(0.05, description="Upper bound on the share of late rows in any window.")
    window_s: PositiveSeconds = Field(60.0, description="The window in which violations are counted.")
    weight: Annotated[float, Field(gt=0)] = Field(1.0, description="Importance when capacity is short.")
    floor: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="Share of what arrives that it is served however short capacity is: nobody starves."
    )

    @property
    def objective(self) -> Objective:
        return Objective(self.latency_s, self.percentile)


class PredictiveRule(Section):
    """How the mpc planner looks ahead; it steps once in the policy's `interval_s`."""

    horizon: Annotated[int, Field(ge=1, le=60)] = Field(5, description="Steps ahead (κ).")
    reference_s: PositiveSeconds = Field(5.0, description="Time constant of the way back to the set-point (T_ref).")
    set_point: Share = Field(0.5, description="Share of a class's delay to aim at; the rest is for what no model sees.")
    utilisation: Share = Field(0.9, description="Busy share of a host's slots up to which needs are granted in full.")
    fill: Annotated[float, Field(gt=0, le=1.5)] = Field(
        1.0, description="Busy share that waiting rows may fill beyond the needs: short hosts are never left idle."
    )
    change: Share = Field(0.1, description="An admission limit or a share is moved only when it is off by more.")
