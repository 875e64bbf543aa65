"""The closed loop: managers over a simulated fleet, the messages between them, and a centre that may be away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.adapters.sim.fleet import FleetPlant, FleetSpec, FleetWindow
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.managers import (
    ApplicationManager,
    ApplicationSettings,
    ApplicationState,
    ApplicationView,
    Budget,
    HaveHosts,
    HostView,
    InfrastructureManager,
    InfrastructureState,
    Message,
    Numbering,
    OperatorManager,
    OperatorSettings,
    OperatorState,
    RegionManager,
    RegionSettings,
    RegionState,
    RegionView,
    Seat,
    StopHost,
)
from tidegate.managers.policies import LocalPolicy, OperatorLimits, OperatorView, objective_share

CENTRE = "infrastructure"


@dataclass(frozen=True, slots=True)
class Periods:
    """How often managers step: local ones often, central ones rarely."""

    local_s: int = 30
    central_s: int = 60
    settling_s: int = 60
    """Minimum time after a change of an operator during which its measurements are ignored."""
    settling_most_s: int = 300
    """Maximum of that time, while it still clears the queue of the pause."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Which managers there are, and their settings."""

    budget: Budget
    most_replicas: Mapping[str, int]
    """Per operator. Learning policies scale their load levels by it."""
    operators_elastic: bool = True
    periods: Periods = field(default_factory=Periods)
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    application: ApplicationSettings = field(default_factory=ApplicationSettings)
    region: RegionSettings = field(default_factory=RegionSettings)
    centre_away_s: Sequence[tuple[float, float]] = ()
    """From, until: the central managers do not step, and messages to them are lost."""
    centre_forgets: bool = False
    """Whether they come back with an empty memory."""


@dataclass(slots=True)
class FleetTimeline:
    """What was recorded at every local step, for plots and checks."""

    time_s: list[float] = field(default_factory=list)
    latency_s: list[Floats] = field(default_factory=list)
    """Worst row per application; −1 if none left."""
    replicas: list[list[int]] = field(default_factory=list)
    hosts: list[list[int]] = field(default_factory=list)
    response_s: list[Floats] = field(default_factory=list)
    busy_cores: list[float] = field(default_factory=list)
    rows_per_s: list[float] = field(default_factory=list)

    def record(self, plant: FleetPlant, window: FleetWindow) -> None:
        self.time_s.append(float(plant.time_s))
        self.latency_s.append(window.latency_s)
        self.response_s.append(window.response_s)
        self.replicas.append([plant.replicas_of(name) for name in plant.operators])
        self.hosts.append([len(plant.hosts_of(region)) for region in plant.spec.regions])
        self.busy_cores.append(window.busy_cores)
        self.rows_per_s.append(window.source_rows_per_s)


PolicyMaker = Callable[[str, OperatorLimits], LocalPolicy]


def limits_of(spec: FleetSpec, most: Mapping[str, int]) -> dict[str, OperatorLimits]:
    """Per operator: its share of the objective, and the rate that its maximum number of replicas sustains."""
    return {
        name: OperatorLimits(
            least=1,
            most=most[name],
            objective_s=objective_share(app.objective_s, operator.cost_s_per_row, app.unloaded_s),
            full_rate_rows_per_s=most[name] / operator.cost_s_per_row,
        )
        for app in spec.applications
        for operator in app.operators
        for name in (f"{app.name}.{operator.name}",)
    }


def leave_alone(plant: FleetPlant, seconds: int, period_s: int = 30) -> FleetTimeline:
    """A fleet without managers, recorded in the same way."""
    timeline = FleetTimeline()
    end_s = plant.time_s + seconds
    while plant.time_s < end_s:
        timeline.record(plant, plant.advance(min(period_s, end_s - plant.time_s)))
    return timeline


class FleetLoop:
    """Drives the managers of a fleet. The plant must have its initial placement."""

    def __init__(self, plant: FleetPlant, settings: LoopSettings, policy: PolicyMaker) -> None:
        self.plant, self.settings, self.timeline = plant, settings, FleetTimeline()
        spec, self._mail = plant.spec, dict[str, list[Message]]()
        self.limits = limits_of(spec, settings.most_replicas)
        self._cost = np.array([o.cost_s_per_row for a in spec.applications for o in a.operators])
        self._owner = {f"{a.name}.{o.name}": a for a in spec.applications for o in a.operators}
        self._operators_of = {
            region: [name for name, app in self._owner.items() if app.region == region] for region in spec.regions
        }
        self.operators = [
            OperatorManager(
                name,
                self.limits[name],
                policy(name, self.limits[name]),
                OperatorState(Numbering(name), plant.replicas_of(name), plant.replicas_of(name), float(plant.time_s)),
                self._owner[name].name,
                self._owner[name].region,
                settings.operator,
            )
            for name in (plant.operators if settings.operators_elastic else ())
        ]
        self.regions = [self._region(name) for name in spec.regions]
        self.applications: list[ApplicationManager] = []
        self.infrastructure = self._start_centre()
        self._views: dict[str, tuple[HostView, ...]] = {}
        self._settled_s: dict[str, float] = {}

    def _region(self, name: str) -> RegionManager:
        hosts = len(self.plant.hosts_of(name))
        state = RegionState(Numbering(name), hosts, hosts, float(self.plant.time_s))
        owners = {operator: app.name for operator, app in self._owner.items()}
        return RegionManager(name, state, owners, CENTRE, self.settings.region)

    def _start_centre(self) -> InfrastructureManager:
        settings = self.settings
        self.applications = []
        for app in self.plant.spec.applications:
            regions = {f"{app.name}.{operator.name}": app.region for operator in app.operators}
            state = ApplicationState.fresh(app.name, regions, settings.application)
            self.applications.append(ApplicationManager(app.name, state, settings.application))
        return InfrastructureManager(CENTRE, InfrastructureState(Numbering(CENTRE)), settings.budget)

    def run(self, seconds: int) -> FleetTimeline:
        """Advance the plant by local periods. Every manager steps in its turn, operators first."""
        periods, away_before = self.settings.periods, False
        worst = np.full(len(self.plant.spec.applications), -1.0)
        end_s = self.plant.time_s + seconds
        while self.plant.time_s < end_s:
            window = self.plant.advance(min(periods.local_s, end_s - self.plant.time_s))
            worst = np.maximum(worst, window.latency_s)
            now_s = float(self.plant.time_s)
            away = any(start <= now_s < until for start, until in self.settings.centre_away_s)
            if away_before and not away and self.settings.centre_forgets:
                self.infrastructure = self._start_centre()
            away_before = away
            self._step_operators(window, now_s)
            central = self.plant.time_s % periods.central_s == 0
            if central and not away:
                self._step_applications(worst, now_s)
            self._step_regions(window, now_s)
            if central and not away:
                self._send(self.infrastructure.step(self._fetch(CENTRE), now_s))
            if central:
                worst = np.full_like(worst, -1.0)
            if away:
                for name in (CENTRE, *(manager.name for manager in self.applications)):
                    self._fetch(name)
            self.timeline.record(self.plant, window)
        return self.timeline

    def _step_operators(self, window: FleetWindow, now_s: float) -> None:
        positions = {name: o for o, name in enumerate(self.plant.operators)} if self.operators else {}
        for manager in self.operators:
            o = positions[manager.name]
            view = OperatorView(
                self.plant.replicas_of(manager.name),
                float(window.arrival_rows_per_s[o]),
                float(window.utilisation[o]),
                float(window.response_s[o]),
                self._settling(manager.name, float(window.response_s[o]), now_s),
            )
            out = manager.step(view, self._fetch(manager.name), now_s)
            if out:
                self._send(out)

    def _settling(self, operator: str, response_s: float, now_s: float) -> bool:
        changed_s, periods = self.plant.changed_s.get(operator), self.settings.periods
        if changed_s is None or self._settled_s.get(operator, -1.0) >= changed_s:
            return False
        age_s = now_s - changed_s
        if age_s <= periods.settling_s or (
            age_s <= periods.settling_most_s and response_s > self.limits[operator].objective_s
        ):
            return True
        self._settled_s[operator] = now_s
        return False

    def _step_applications(self, worst: Floats, now_s: float) -> None:
        for manager, app, latency_s in zip(self.applications, self.plant.spec.applications, worst, strict=True):
            view = ApplicationView(float(latency_s) if latency_s >= 0 else None, app.objective_s)
            self._send(manager.step(view, self._fetch(manager.name), now_s))

    def _step_regions(self, window: FleetWindow, now_s: float) -> None:
        # Arriving work, not completed work: a pause and the catch-up after it are not load.
        work = dict(zip(self.plant.operators, (window.arrival_rows_per_s * self._cost).tolist(), strict=True))
        for manager in self.regions:
            own = {name: work[name] for name in self._operators_of[manager.name]}
            out, commands = manager.step(RegionView(self._hosts(manager.name), own), self._fetch(manager.name), now_s)
            self._send(out)
            for command in commands:
                self._views.pop(manager.name, None)
                match command:
                    case Seat(operator, hosts):
                        self.plant.seat(operator, hosts)
                    case HaveHosts(region, target):
                        self.plant.have_hosts(region, target)
                    case StopHost(_, host):
                        self.plant.stop_host(host)

    def _hosts(self, region: str) -> tuple[HostView, ...]:
        known = self._views.get(region)
        if known is not None and all(view.up for view in known):
            return known
        kind, plant = self.plant.spec.host, self.plant
        on: Mapping[str, dict[str, int]] = {name: {} for name in plant.hosts_of(region)}
        for operator, seats in plant.seats.items():
            for host, n in seats.items():
                if host in on:
                    on[host][operator] = n
        views = tuple(HostView(h, kind.cores, kind.slots, plant.is_up(h), on[h]) for h in on)
        self._views[region] = views
        return views

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._mail.setdefault(message.to, []).append(message)

    def _fetch(self, name: str) -> list[Message]:
        return self._mail.pop(name, [])
