"""The events of a scenario: hosts and operators come and go, and schedules place the existing tasks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegate.adapters.sim.scenarioparts import Resources, ScenarioApplication, ScenarioHost, ScenarioOperator
from tidegate.adapters.sim.scenariosection import Amount, Angle, Load, Name, Positive, ScenarioSection
from tidegate.load import Sinusoid

PAPER_COST_S = 1 / 25  # Melnik et al. 2019: a core does 25 rows per unit of time


class NewNode(ScenarioSection):
    event: Literal["NewNode"]
    at_s: Amount
    id: Name
    cpu: Positive
    resources: Resources = Field(default_factory=dict)
    region: str = "here"
    cost_per_hour: Amount = 0.0

    def host(self) -> ScenarioHost:
        return ScenarioHost(
            name=self.id, cpu=self.cpu, resources=self.resources, region=self.region, cost_per_hour=self.cost_per_hour
        )


class NewOperator(ScenarioSection):
    """An operator that arrives with its own load."""

    event: Literal["NewOperator"]
    at_s: Amount
    id: Name
    load: Load
    cost: Amount | dict[str, Amount] = PAPER_COST_S
    holds: dict[str, Amount] = Field(default_factory=dict)
    parallelism: Annotated[int, Field(ge=1)] = 1
    max_cpu: Positive | None = None
    selectivity: Amount = 1.0

    def application(self) -> ScenarioApplication:
        operator = ScenarioOperator(
            name=self.id,
            cost=self.cost,
            holds=self.holds,
            selectivity=self.selectivity,
            parallelism=self.parallelism,
            max_cpu=self.max_cpu,
        )
        return ScenarioApplication(name=self.id, load=self.load, operators=(operator,))


class NewSinusOperator(ScenarioSection):
    """`x(t) = a + b·sin(2πt/c + d)`, t from the start of the simulation."""

    event: Literal["NewSinusOperator"]
    at_s: Amount
    id: Name
    baseline: Amount
    amplitude: Amount
    period_s: Positive
    phase: Angle = 0.0
    cost: Amount | dict[str, Amount] = PAPER_COST_S

    def application(self) -> ScenarioApplication:
        load = Sinusoid(self.baseline, self.amplitude, self.period_s, self.phase)
        operator = ScenarioOperator(name=self.id, cost=self.cost)
        return ScenarioApplication(name=self.id, load=load, operators=(operator,))


class KillNode(ScenarioSection):
    """The host is gone. Its tasks wait for the next schedule."""

    event: Literal["KillNode"]
    at_s: Amount
    id: Name


class KillOperator(ScenarioSection):
    """The operator is gone (`application.operator`, or the application's name). Its rows are dropped."""

    event: Literal["KillOperator"]
    at_s: Amount
    id: Name


class ScheduleTasks(ScenarioSection):
    """Place every task again, based on the measurements so far."""

    event: Literal["Schedule"]
    at_s: Amount
    scheduler: str | None = Field(default=None, description="Left out: the scenario's.")


Event = Annotated[
    NewNode | NewOperator | NewSinusOperator | KillNode | KillOperator | ScheduleTasks, Field(discriminator="event")
]
