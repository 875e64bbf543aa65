"""The policy: what a user wants kept, and how freely the controller may act. Every field has a sane default."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidegate.domain.decision import Mode
from tidegate.domain.elasticity import OperatorRule
from tidegate.domain.objective import Objective
from tidegate.domain.objectives import QosGraph, QosRow
from tidegate.domain.qos import PredictiveRule, QosClassRule
from tidegate.domain.section import PositiveSeconds, Seconds, Section, Share

DEFAULT_CLASS = QosClassRule()


class ObjectiveRule(Section):
    """The latency that rows must keep, from arrival to the commit of their batch."""

    latency_s: PositiveSeconds = Field(10.0, description="A row should be done within so many seconds.")
    percentile: Share = Field(0.99, description="The share of rows that must be.")

    @property
    def objective(self) -> Objective:
        return Objective(self.latency_s, self.percentile)


class ApplicationRule(Section):
    """What differs for one application (a query, by its name)."""

    objective: ObjectiveRule | None = Field(None, description="Its own objective.")
    qos_class: str | None = Field(None, description="Its service class, one of `classes`.")
    qos_table: tuple[QosRow, ...] = Field((), description="More objectives: bounds on metrics.")
    qos_graphs: tuple[QosGraph, ...] = Field((), description="More objectives: utility over metrics.")
    ignore: bool = Field(False, description="Watch it, never plan for it.")


class ExecutorRule(Section):
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


class CapacityRule(Section):
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


class GuardRule(Section):
    """What keeps a decision from doing harm."""

    cool_down_up_s: Seconds = Field(8.0, description="Between growing the pool and growing it again.")
    cool_down_down_s: Seconds = Field(30.0, description="Between any change of the pool and shrinking it.")
    disruptions_per_hour: Annotated[int, Field(ge=0)] = Field(
        30, description="Shrinks and restarts in any hour; growing is never held by it."
    )
    max_age_s: PositiveSeconds = Field(30.0, description="Older metrics are stale: nothing is changed on them.")


class Policy(Section):
    """The whole policy file."""

    mode: Mode = Field(Mode.APPLY, description="off watches, recommend decides and journals, apply acts.")
    interval_s: PositiveSeconds = Field(1.0, description="Seconds between two steps of the controller.")
    planner: Literal["capacity", "me-stream", "mpc"] = Field(
        "capacity", description="Who plans: the size of the pool, the operators inside a query, or service classes."
    )
    objective: ObjectiveRule = Field(default_factory=ObjectiveRule, description="For every application.")
    applications: dict[str, ApplicationRule] = Field(default_factory=dict, description="By query name.")
    classes: dict[str, QosClassRule] = Field(default_factory=dict, description="Service classes by name.")
    executors: ExecutorRule = Field(default_factory=ExecutorRule)
    capacity: CapacityRule = Field(default_factory=CapacityRule)
    operators: OperatorRule = Field(default_factory=OperatorRule)
    predictive: PredictiveRule = Field(default_factory=PredictiveRule)
    guards: GuardRule = Field(default_factory=GuardRule)
    dynamic_allocation: Literal["refuse", "take-over"] = Field(
        "refuse", description="Where Spark's own dynamic allocation is on: refuse to scale, or switch it off and rule."
    )
    store: str | None = Field(
        None,
        description="SQLite file for knowledge and journal; left out: tidegate-NAME.db where the job runs.",
    )
    history: str | None = Field(
        None, description="Folder for a history of every metric, as Parquet; left out: none is kept."
    )

    @model_validator(mode="after")
    def _classes_exist(self) -> Self:
        for name, rule in self.applications.items():
            if rule.qos_class is not None and rule.qos_class not in self.classes:
                known = ", ".join(self.classes) or "none is defined"
                raise ValueError(f"application {name}: no class {rule.qos_class!r} (classes: {known})")
        return self

    def objective_of(self, application: str) -> Objective:
        """Its own objective, else its class's, else everybody's."""
        rule = self.applications.get(application)
        if rule and rule.objective:
            return rule.objective.objective
        if rule and rule.qos_class:
            return self.classes[rule.qos_class].objective
        return self.objective.objective

    def class_of(self, application: str) -> QosClassRule:
        """The service class of an application; those without one weigh 1 and keep the policy's objective."""
        rule = self.applications.get(application)
        return self.classes[rule.qos_class] if rule and rule.qos_class else DEFAULT_CLASS

    def ignores(self, application: str) -> bool:
        rule = self.applications.get(application)
        return bool(rule and rule.ignore)
