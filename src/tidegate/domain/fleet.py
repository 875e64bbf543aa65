"""Observation of a fleet: hosts, their applications, and the requests of one level to the level above."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.domain.action import Action
from tidegate.domain.python310 import StrEnum


class HostState(StrEnum):
    """State of a host as the centre sees it."""

    STARTING = "starting"
    READY = "ready"
    AWAY = "away"
    """No answer. Its applications may still run and are left alone as long as their leases are renewed."""
    REFUSED = "refused"
    """It does not know the fleet's token."""
    LOST = "lost"
    """The process is gone, or the leases of all its applications have expired."""


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of the fleet."""

    name: str
    region: str
    slots: int
    state: HostState = HostState.READY
    leaving: bool = False
    """It was asked to leave and accepts no more applications."""
    cpu_busy: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    empty_s: float = 0.0
    """How long it has had no applications, running or assigned."""

    @property
    def open(self) -> bool:
        """Return whether an application may be placed on it."""
        return self.state is HostState.READY and not self.leaving


@dataclass(frozen=True, slots=True)
class FleetApplication:
    """One application of the fleet, as recorded in the registry and as reported by its host."""

    name: str
    home: str | None
    """The region where its rows originate."""
    slots: float
    """Slots declared at submission."""
    assigned: str | None
    """The host it should run on; None if it has to be placed."""
    host: str | None = None
    """The host that reports it as running."""
    pinned: bool = False
    """A user chose its host."""
    ran: bool = False
    """It has held a lease before, so it may continue on any host. Otherwise it can wait for its region's first host."""
    load_slots: float | None = None
    """Mean number of busy slots."""
    latency_p99_s: float | None = None
    objective_s: float | None = None
    changes_alone: int = 0
    """Total restarts that its host made while the centre was silent."""

    @property
    def need(self) -> float:
        """Slots to plan for."""
        return self.slots if self.load_slots is None else max(self.load_slots, LEAST_SLOTS)

    @property
    def violated(self) -> bool:
        return self.latency_p99_s is not None and self.objective_s is not None and self.latency_p99_s > self.objective_s


LEAST_SLOTS = 0.05


@dataclass(frozen=True, slots=True)
class Request:
    """An action that a host or region wants and may not decide alone. It stands as long as it is wanted."""

    sender: str
    action: Action
    reason: str
    score: float = 0.0
    """Priority for the sender: higher is served first."""
    urgent: bool = False
    """An objective is being missed."""


@dataclass(frozen=True)
class FleetSample:
    """The fleet, or one region of it."""

    hosts: tuple[FleetHost, ...]
    applications: tuple[FleetApplication, ...]
    requests: tuple[Request, ...] = ()
    settled: bool = True
    """False while a newly started centre still waits for all hosts to answer."""
    host_numbers: Mapping[str, int] = field(default_factory=dict)
    """By region, the highest host number used so far."""
    speakers: tuple[str, ...] = ()
    """Regions with an active manager."""
    ending: bool = False
    """The fleet is being taken down."""

    @property
    def plannable(self) -> bool:
        return self.settled and not self.ending

    @cached_property
    def on(self) -> dict[str, list[FleetApplication]]:
        """Applications by assigned host."""
        found: dict[str, list[FleetApplication]] = {}
        for application in self.applications:
            if application.assigned is not None:
                found.setdefault(application.assigned, []).append(application)
        return found

    @cached_property
    def by_name(self) -> dict[str, FleetApplication]:
        return {application.name: application for application in self.applications}

    @cached_property
    def host_by_name(self) -> dict[str, FleetHost]:
        return {host.name: host for host in self.hosts}


@dataclass(frozen=True, slots=True)
class Standing:
    """The relation of a host or a region to the centre."""

    silent_s: float
    """Seconds since the last contact with the centre."""
    granted: tuple[Action, ...] = ()
    """Actions that the centre has granted and that are not done yet."""
    most_tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Maximum tasks of each operator that may be rescaled, by application."""
