"""A scenario: hosts, applications, loads and events of a platform, or a Spark-like pool under the controller."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.adapters.sim.events import Event, NewNode, NewOperator, NewSinusOperator
from tidegate.adapters.sim.poolspec import PoolSpec
from tidegate.adapters.sim.scenarioparts import RegionDistance, ScenarioApplication, ScenarioHost
from tidegate.adapters.sim.scenariosection import Amount, Positive, ScenarioSection


class Delays(ScenarioSection):
    """Time until a task serves after it has been placed."""

    startup_s: Amount = Field(default=0.0, description="The first time.")
    migration_s: Amount = Field(default=0.0, description="From one host to another.")


class Scenario(ScenarioSection):
    """The whole scenario file."""

    name: str = "scenario"
    duration_s: Positive
    step_s: Positive = Field(default=1.0, description="Length of a step of the plant.")
    record_every_s: Positive | None = Field(default=None, description="Left out: at most about 1000 records.")
    seed: Annotated[int, Field(ge=0)] = 0
    scheduler: str = "round-robin"
    hosts: tuple[ScenarioHost, ...] = ()
    regions: tuple[RegionDistance, ...] = ()
    applications: tuple[ScenarioApplication, ...] = ()
    events: tuple[Event, ...] = ()
    delays: Delays = Delays()
    pool: PoolSpec | None = None

    def all_hosts(self) -> tuple[ScenarioHost, ...]:
        """Every host that ever exists, one by one."""
        listed = [spec.model_copy(update={"name": name, "count": None}) for spec in self.hosts for name in spec.names()]
        return (*listed, *(event.host() for event in self.events if isinstance(event, NewNode)))

    def all_applications(self) -> tuple[ScenarioApplication, ...]:
        """Every application that ever runs on hosts."""
        arriving = (event.application() for event in self.events if isinstance(event, NewOperator | NewSinusOperator))
        return (*self.applications, *arriving)
