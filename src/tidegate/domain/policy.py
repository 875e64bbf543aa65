"""The policy: what a user wants kept, and how freely the controller may act. Every field has a sane default."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tidegate.domain.decision import Mode
from tidegate.domain.objective import Objective

Share = Annotated[float, Field(gt=0, lt=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ObjectiveRule(_Section):
    """The latency that rows must keep, from arrival to the commit of their batch."""

    latency_s: PositiveSeconds = Field(10.0, description="A row should be done within so many seconds.")
    percentile: Share = Field(0.99, description="The share of rows that must be.")

    @property
    def objective(self) -> Objective:
        return Objective(self.latency_s, self.percentile)


class ApplicationRule(_Section):
    """What differs for one application (a query, by its name)."""

    objective: ObjectiveRule | None = Field(None, description="Its own objective.")
    ignore: bool = Field(False, description="Watch it, never plan for it.")


class ExecutorRule(_Section):
    """Bounds of the executor pool."""

    min: Annotated[int, Field(ge=1)] = Field(1, description="Never fewer executors.")
    max: Annotated[int, Field(ge=1)] = Field(4, description="Never more executors.")
    step_up: Annotated[int, Field(ge=1)] = Field(1, description="Added at once; cold executors compete with warm ones.")
    step_down: Annotated[int, Field(ge=1)] = Field(1, description="Retired at once.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class CapacityRule(_Section):
    """How the capacity planner sizes the pool."""

    utilisation: Share = Field(0.75, description="Busy share of the slots to aim at.")
    catch_up_s: PositiveSeconds = Field(20.0, description="A backlog should be gone within so many seconds.")
    lead_s: Seconds = Field(10.0, description="How far ahead the trend is followed: an executor's start-up time.")
    window_s: PositiveSeconds = Field(12.0, description="Rates are measured over so many seconds.")
    shrink_after_s: Seconds = Field(45.0, description="Shrink only to the largest size wanted in so many seconds.")
    shrink_margin: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="Shrink only if the smaller pool would stay this share below the utilisation target."
    )
    batch_share: Share = Field(
        0.4, description="Gated sources: a batch may take at most this share of the objective; 0.4 leaves room to wait."
    )


class GuardRule(_Section):
    """What keeps a decision from doing harm."""

    cool_down_up_s: Seconds = Field(8.0, description="Between growing the pool and growing it again.")
    cool_down_down_s: Seconds = Field(30.0, description="Between any change of the pool and shrinking it.")
    disruptions_per_hour: Annotated[int, Field(ge=0)] = Field(
        30, description="Shrinks and restarts in any hour; growing is never held by it."
    )
    max_age_s: PositiveSeconds = Field(30.0, description="Older metrics are stale: nothing is changed on them.")


class Policy(_Section):
    """The whole policy file."""

    mode: Mode = Field(Mode.APPLY, description="off watches, recommend decides and journals, apply acts.")
    interval_s: PositiveSeconds = Field(1.0, description="Seconds between two steps of the controller.")
    planner: Literal["capacity"] = Field("capacity", description="Who plans.")
    objective: ObjectiveRule = Field(default_factory=ObjectiveRule, description="For every application.")
    applications: dict[str, ApplicationRule] = Field(default_factory=dict, description="By query name.")
    executors: ExecutorRule = Field(default_factory=ExecutorRule)
    capacity: CapacityRule = Field(default_factory=CapacityRule)
    guards: GuardRule = Field(default_factory=GuardRule)
    dynamic_allocation: Literal["refuse", "take-over"] = Field(
        "refuse", description="Where Spark's own dynamic allocation is on: refuse to scale, or switch it off and rule."
    )
    store: str | None = Field(
        None,
        description="SQLite file for knowledge and journal; left out: tidegate-NAME.db where the job runs.",
    )

    def objective_of(self, application: str) -> Objective:
        rule = self.applications.get(application)
        return (rule.objective if rule and rule.objective else self.objective).objective

    def ignores(self, application: str) -> bool:
        rule = self.applications.get(application)
        return bool(rule and rule.ignore)
