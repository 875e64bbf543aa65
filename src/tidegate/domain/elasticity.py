"""The section of the policy that operator elasticity reads: when a bottleneck counts, and how far a plan may go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegate.domain.section import PositiveSeconds, Seconds, Section, Share


class OperatorRule(Section):
    """How the me-stream planner finds bottlenecks and rescales operators."""

    rule: Literal["auto", "level", "parameter"] = Field(
        "auto", description="Who gets free slots: by bottleneck level, by parameter plan, or chosen by their spread."
    )
    phi: Annotated[float, Field(gt=0)] = Field(1.0, description="Executors a bottleneck level adds (parameter plan).")
    interval_s: PositiveSeconds = Field(60.0, description="A bottleneck has to recur within so many seconds.")
    recurrences: Annotated[int, Field(ge=1)] = Field(3, description="How often it has to occur in that time.")
    comfort: Share = Field(0.7, description="Latency above this share of the objective asks for an adjustment.")
    accuracy: Annotated[float, Field(gt=0)] = Field(
        0.3, description="A latency that exceeds its usual line by this share is a bottleneck value."
    )
    slow_watch_s: PositiveSeconds = Field(30.0, description="How often a stable application is looked at.")
    task_overhead_s: Seconds = Field(0.02, description="Slot-seconds that a task costs beside its rows, at most.")
    payback_s: PositiveSeconds = Field(600.0, description="A pause has to be earned back within so many seconds.")
