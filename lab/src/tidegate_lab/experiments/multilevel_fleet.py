"""A simulated fleet under the product's own controllers: hosts, regions and the centre, each a runner on its clock.

The controllers are those of `tidegate.fleet.controllers`, over the worlds of `adapters.sim.fleet_worlds`. Time is
simulated, so runners step only when something is due: every period, and a host again when it is granted something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.adapters.sim.fleet import FleetPlant, FleetWindow
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.adapters.sim.fleet_worlds import Readings, Reported, SimCentreWorld, SimHostWorld, SimRegionWorld
from tidegate.control.runner import Runner
from tidegate.domain import Decision, Observation, Receipt, Request, Standing
from tidegate.fleet.applicationfigures import ApplicationFigures
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.controllers import HostParts, centre_controller, host_controller, region_controller
from tidegate.fleet.hostcontrol import StandingCluster
from tidegate.fleet.plan.asking import requests_of

Learned = dict[str, dict[str, Any]]
"""What an operator policy knows about one application, by operator."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Which levels are elastic, and when the centre is away."""

    most_tasks: Mapping[str, Mapping[str, int]]
    """By application and operator; empty if the tasks are fixed."""
    hosts: bool = True
    centre_away_s: tuple[float, float] = (-1.0, -1.0)


@dataclass(slots=True)
class FleetTimeline:
    """What was recorded in every period."""

    time_s: list[float] = field(default_factory=list)
    latency_s: list[Floats] = field(default_factory=list)
    """Worst row per application; −1 if none left."""
    late: list[list[bool]] = field(default_factory=list)
    """By application: was the 99th percentile over the objective?"""
    tasks: list[list[int]] = field(default_factory=list)
    hosts: list[list[int]] = field(default_factory=list)
    rows_per_s: list[float] = field(default_factory=list)

    def record(self, plant: FleetPlant, window: FleetWindow, readings: Readings) -> None:
        self.time_s.append(float(plant.time_s))
        self.latency_s.append(window.latency_s.max(axis=1))
        self.late.append([readings.late(app.name) for app in plant.spec.applications])
        self.tasks.append(plant.tasks())
        regions = [host.region for host in plant.hosts.values()]
        self.hosts.append([regions.count(region) for region in plant.spec.regions])
        self.rows_per_s.append(window.source_rows_per_s)


class SimClock:
    """The plant's time. Runners are stepped by the fleet's own loop and never sleep."""

    def __init__(self, plant: FleetPlant) -> None:
        self._plant = plant

    def now_s(self) -> float:
        return float(self._plant.time_s)

    def monotonic_s(self) -> float:
        return float(self._plant.time_s)

    def sleep_until(self, monotonic_s: float) -> bool:
        raise RuntimeError("simulated runners are stepped, they do not sleep")


class NoJournal:
    """Keeps nothing: five days of every host would be gigabytes."""

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None: ...

    def judge(self, step: int, body: Mapping[str, Any]) -> None: ...

    def note(self, time_s: float, event: str, text: str) -> None: ...

    def load_blob(self, name: str) -> bytes | None:
        return None

    def save_blob(self, name: str, body: bytes) -> None: ...


class SimulatedHost:
    """A host with its runner; what it learned about an application leaves with the application."""

    def __init__(self, name: str, fleet: SimulatedFleet) -> None:
        self.name = name
        self._fleet = fleet
        self.world = SimHostWorld(name, fleet.plant, fleet.readings)
        self.parts: HostParts = host_controller(fleet.host_policy, fleet.config.managers, others=())
        cluster = StandingCluster(self.world, self._standing, lambda _: None)
        self.runner = Runner(cluster, self.parts.controller, SimClock(fleet.plant), fleet.journal, fleet.journal)
        self._here: set[str] = set()

    def step(self) -> None:
        self.runner.tick()

    def meet(self) -> None:
        """Applications may have come and gone."""
        here, policies = set(self.world.applications()), self.parts.policies
        if policies is not None:
            for gone in self._here - here:
                self._fleet.learned[gone] = policies.learned(gone)
            for new in here - self._here:
                policies.know(new, self._fleet.learned.get(new, {}))
        self._here = here

    def requests(self) -> tuple[Request, ...]:
        entry = self.runner.last
        return requests_of(entry.decision, self.name) if entry is not None else ()

    def _standing(self) -> Standing:
        granted = tuple(self._fleet.centre_world.grants.get(self.name, ()))
        most = {name: tasks for name, tasks in self._fleet.levels.most_tasks.items() if name in self._here}
        return Standing(self._fleet.silent_s, granted, most)


class SimulatedFleet:
    """Steps every runner of a fleet over a plant that has its initial placement."""

    def __init__(
        self, plant: FleetPlant, config: FleetConfig, levels: Levels, learned: dict[str, Learned] | None = None
    ) -> None:
        self.plant, self.config, self.levels = plant, config, levels
        self.learned: dict[str, Learned] = dict(learned or {})
        self.timeline = FleetTimeline()
        self.readings, self.journal = Readings(plant), NoJournal()
        self.host_policy = config.policy.model_copy(update={"interval_s": config.managers.period_s})
        self._figures = {app.name: ApplicationFigures() for app in plant.spec.applications}
        self._reports: dict[str, Reported] = {}
        """What hosts report in this period. Region and centre read the same reports."""
        self.hosts: dict[str, SimulatedHost] = {}
        regions = plant.spec.regions if levels.hosts else ()
        clock = SimClock(plant)
        self.regions = {
            region: Runner(
                SimRegionWorld(region, plant, self._report, self._region_standing),
                region_controller(region, config),
                clock,
                self.journal,
                self.journal,
            )
            for region in regions
        }
        self.centre_world = SimCentreWorld(plant, self._report, self._requests, tuple(regions))
        for name, host in plant.hosts.items():
            number = int(name.rpartition("-")[2])
            self.centre_world.numbers[host.region] = max(self.centre_world.numbers.get(host.region, 0), number)
        self.centre = Runner(self.centre_world, centre_controller(config).controller, clock, self.journal, self.journal)
        self._heard_s = 0.0
        self._meet()

    @property
    def silent_s(self) -> float:
        return self.plant.time_s - self._heard_s

    def run(self, seconds: int, each: Callable[[], None] = lambda: None) -> FleetTimeline:
        """Advance by periods: hosts, then regions, then the centre, then the hosts that were granted something."""
        period_s, end_s = int(self.config.timing.poll_s), self.plant.time_s + seconds
        self.plant.advance(1)
        while self.plant.time_s < end_s - 1:
            self.plant.advance(min(period_s - 1, end_s - self.plant.time_s))
            window = self.plant.window()
            self.readings.take(window)
            for name, figures in self._figures.items():
                figures.take(self.readings.sample(name, True), float(self.plant.time_s))
            self.timeline.record(self.plant, window, self.readings)
            self._step()
            self.plant.advance(min(1, end_s - self.plant.time_s))
            for name in list(self.centre_world.grants):
                if name in self.hosts:
                    self.hosts[name].step()
            each()
        return self.timeline

    def know(self) -> dict[str, Learned]:
        """What the policies have learned by now, by application."""
        for host in self.hosts.values():
            if host.parts.policies is not None:
                for name in host.world.applications():
                    self.learned[name] = host.parts.policies.learned(name)
        return self.learned

    def _step(self) -> None:
        for host in self.hosts.values():
            host.world.fresh = True
        self._reports.clear()
        if self.plant.time_s % int(self.config.managers.period_s) == 0:
            for host in self.hosts.values():
                host.step()
        for runner in self.regions.values():
            runner.tick()
        from_s, until_s = self.levels.centre_away_s
        if from_s <= self.plant.time_s < until_s:
            self.centre_world.grants = {}
            return
        self._heard_s = float(self.plant.time_s)
        self.centre.tick()
        self._meet()

    def _meet(self) -> None:
        """Start the runners of new hosts, and let hosts take over applications that moved."""
        if not self.levels.most_tasks:
            return
        for host in self.hosts.values():
            host.meet()
        for gone in self.hosts.keys() - self.plant.hosts.keys():
            del self.hosts[gone]
        for name in self.plant.hosts:
            if name not in self.hosts:
                self.hosts[name] = SimulatedHost(name, self)
        for host in self.hosts.values():
            host.meet()

    def _requests(self) -> Iterator[Request]:
        for host in self.hosts.values():
            yield from host.requests()
        for region, runner in self.regions.items():
            if runner.last is not None:
                yield from requests_of(runner.last.decision, region)

    def _region_standing(self) -> Standing:
        return Standing(self.silent_s)

    def _report(self, application: str) -> Reported:
        if application not in self._reports:
            self._reports[application] = self._make_report(application)
        return self._reports[application]

    def _make_report(self, application: str) -> Reported:
        figures = self._figures[application].summary(float(self.plant.time_s))
        host = self.hosts.get(self.plant.host_of[application])
        alone = host.parts.asking.memory.changes.get(application, 0) if host is not None else 0
        return Reported(figures.load_slots, figures.latency_p99_s, alone)


def leave_alone(plant: FleetPlant, seconds: int, period_s: int) -> FleetTimeline:
    """A fleet without controllers, recorded in the same way."""
    timeline, readings = FleetTimeline(), Readings(plant)
    end_s = plant.time_s + seconds
    while plant.time_s < end_s:
        plant.advance(min(period_s, end_s - plant.time_s))
        window = plant.window()
        readings.take(window)
        timeline.record(plant, window, readings)
    return timeline
