"""The `pool:` form of a scenario: Spark-like micro-batch applications on executors, under the controller."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.faults import ExecutorLost, Fault, MetricsMissing, MetricsStale, SlowStart
from tidegate.adapters.sim.scenariosection import Amount, Load, Name, Positive, ScenarioSection
from tidegate.domain.policy import Policy
from tidegate.domain.python310 import Self


class FaultSpec(ScenarioSection):
    """A fault to inject."""

    kind: Literal["metrics-missing", "metrics-stale", "executor-lost", "slow-start"]
    at_s: Amount
    until_s: Amount | None = Field(default=None, description="All but executor-lost last until then.")
    startup_s: Amount | None = Field(default=None, description="slow-start: what new executors take.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind != "executor-lost" and (self.until_s is None or self.until_s <= self.at_s):
            raise ValueError(f"{self.kind} needs an until_s after its at_s")
        if self.kind == "slow-start" and self.startup_s is None:
            raise ValueError("slow-start needs startup_s")
        return self

    def fault(self) -> Fault:
        until_s = self.until_s or math.inf
        if self.kind == "executor-lost":
            return ExecutorLost(self.at_s)
        if self.kind == "slow-start":
            return SlowStart(self.at_s, until_s, self.startup_s or 0.0)
        return MetricsStale(self.at_s, until_s) if self.kind == "metrics-stale" else MetricsMissing(self.at_s, until_s)


class PoolOperatorSpec(ScenarioSection):
    """A stage of every batch."""

    name: Name
    cost_s_per_row: Amount
    parallelism: Annotated[int, Field(ge=1)] = 8
    selectivity: Amount = 1.0
    inputs: tuple[str, ...] | None = None
    communication_s_per_row: Amount = Field(default=0.0, description="Slot-seconds of waiting for the shuffle, a row.")
    bytes_per_row: Amount = Field(default=0.0, description="Shuffle bytes of a row that comes in.")
    hot_share: Annotated[float, Field(ge=0, le=1)] = Field(default=0.0, description="Rows that meet in one task.")
    works_at_once: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Maximum number of tasks that can make progress at once, for example because of a lock.",
    )
    task_overhead_s: Amount = Field(default=0.0, description="Slot-seconds that a task costs beside its rows.")
    cpu_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="Share of a row's cost that needs a CPU; in the rest its task waits."
    )
    stateful: bool = Field(default=False, description="Stateful operators share one parallelism.")
    state_keys: Annotated[int, Field(ge=0)] = 0
    fixed: bool = Field(default=False, description="A new parallelism is taken and ignored.")


class PoolApplicationSpec(ScenarioSection):
    """A streaming query in micro-batches."""

    name: Name
    load: Load
    operators: Annotated[tuple[PoolOperatorSpec, ...], Field(min_length=1)]
    interval_s: Amount = 1.0
    overhead_s: Amount = 0.3
    admission_rows: Annotated[int, Field(ge=1)] | None = None
    cold_s: Amount = 2.0
    restart_s: Amount = 4.0
    sink_s: Amount = Field(default=0.0, description="What the sink takes on the driver, a batch.")
    sink_s_per_row: Amount = 0.0
    repartition_s: Amount = Field(default=8.0, description="What it takes longer to restart with another state.")
    gated: bool = Field(default=True, description="Its source takes an admission limit at once.")
    restartable: bool = True
    driver_cpu_s: Amount = Field(default=0.0, description="Driver CPU-seconds of a batch.")
    driver_cpu_s_per_task: Amount = Field(default=0.0, description="And for every task that is launched.")
    state_reload_s: Amount = Field(default=0.2, description="Until a state partition is loaded where it was moved.")
    state_first_s: Amount = Field(default=1.8, description="What that takes longer on an executor new to this state.")
    group: Name | None = Field(
        default=None, description="The class whose share it is served in; left out: its class in the policy."
    )

    def application(self) -> SimApplication:
        """The simulated application."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "group"}
        operators = tuple(SimOperator(**operator.model_dump()) for operator in self.operators)
        return SimApplication(**(fields | {"operators": operators}))


class PoolSpec(ScenarioSection):
    """Executors shared by Spark-like applications. With a policy, the controller manages them."""

    executors: Annotated[int, Field(ge=0)] = 1
    slots_per_executor: Annotated[int, Field(ge=1)] = 2
    max_executors: Annotated[int, Field(ge=1)] | None = None
    startup_s: Amount = 5.0
    warmup_s: Amount = 10.0
    warmup_speed: Annotated[float, Field(gt=0, le=1)] = 0.5
    host_cpus: Positive | None = Field(
        default=None, description="CPUs that tasks and cold executors share; left out: one for everybody."
    )
    cold_cpus: Amount = Field(default=1.15, description="CPUs that an executor wants until it is warm.")
    driver_cpus: Positive | None = Field(
        default=None, description="CPUs that all queries share on the driver; left out: no limit."
    )
    noise: Annotated[float, Field(ge=0, le=1)] = 0.05
    applications: Annotated[tuple[PoolApplicationSpec, ...], Field(min_length=1)]
    faults: tuple[FaultSpec, ...] = ()
    policy: Policy | None = Field(default=None, description="Left out: nobody steers, the pool stays as it is.")

    def group_of(self, application: PoolApplicationSpec) -> str | None:
        """The group of the application itself, otherwise the policy's class."""
        rule = self.policy.applications.get(application.name) if self.policy else None
        return application.group or (rule.qos_class if rule else None)
