"""What a scenario places: hosts and regions, applications and their operators."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tidegate.adapters.sim.scenariosection import Amount, Load, Name, Positive, ScenarioSection


def _no_cpu_twice(resources: dict[str, float]) -> dict[str, float]:
    if "cpu" in resources:
        raise ValueError("cpu has its own setting beside resources")
    return resources


Resources = Annotated[dict[str, Amount], AfterValidator(_no_cpu_twice)]


class ScenarioHost(ScenarioSection):
    """One host, or `count` of them (then named name-0, name-1, …)."""

    name: Name
    cpu: Positive = Field(description="Cores.")
    resources: Resources = Field(default_factory=dict, description="Others: memory, gpu, network …, in any unit.")
    region: str = Field(default="here", description="The region it stands in.")
    cost_per_hour: Amount = 0.0
    count: Annotated[int, Field(ge=1)] | None = None

    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.count is None else tuple(f"{self.name}-{index}" for index in range(self.count))


class RegionDistance(ScenarioSection):
    """Travel time of a row between two regions, in either direction."""

    between: tuple[str, str]
    delay_s: Amount


class Routing(ScenarioSection):
    """How rows are spread over an operator's instances: evenly, by the weight of keys, or as specified."""

    by: Literal["random", "key", "custom"] = "random"
    weights: tuple[Amount, ...] | tuple[tuple[Amount, ...], ...] | None = Field(
        default=None, description="key: the share of each instance; custom: one such row for each instance that sends."
    )


class ScenarioOperator(ScenarioSection):
    """One operator of an application."""

    name: Name
    cost: Amount | dict[str, Amount] = Field(
        default=0.001, description="CPU-seconds for a row, or seconds by resource."
    )
    holds: dict[str, Amount] = Field(default_factory=dict, description="Held by each instance, rows or not.")
    selectivity: Amount = Field(default=1.0, description="Rows out for a row in.")
    parallelism: Annotated[int, Field(ge=1)] = Field(default=1, description="Instances.")
    max_cpu: Positive | None = Field(default=None, description="Cores that one instance can use.")
    inputs: tuple[str, ...] | None = Field(
        default=None, description="Operators that feed it; left out: the one before it; []: the application's load."
    )
    routing: Routing = Routing()


class ScenarioApplication(ScenarioSection):
    """A graph of operators and the load that enters it."""

    name: Name
    load: Load
    operators: Annotated[tuple[ScenarioOperator, ...], Field(min_length=1)]

    def full_name(self, operator: ScenarioOperator) -> str:
        """`application.operator`, or just the application's name if its only operator has the same name."""
        alone = len(self.operators) == 1 and operator.name == self.name
        return self.name if alone else f"{self.name}.{operator.name}"
