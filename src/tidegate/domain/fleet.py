"""What is seen of a fleet: hosts, the applications on them, and what one level asks of the level above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.domain.action import Action
from tidegate.domain.python310 import StrEnum


class HostState(StrEnum):
    """What a host is to the centre."""

    STARTING = "starting"
    READY = "ready"
    AWAY = "away"
    """No answer; its applications may well run, and are left alone as long as their leases are renewed."""
    REFUSED = "refused"
    """It does not know the fleet's token."""
    LOST = "lost"
    """Gone for certain, or all that it ran has let its lease run out."""


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of the fleet."""

    name: str
    region: str
    slots: int
    state: HostState = HostState.READY
    leaving: bool = False
    """It was told to go, and takes no more applications."""
    cpu_busy: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    empty_s: float = 0.0
    """For this long it has run nothing, and nothing was on its way to it."""

    @property
    def open(self) -> bool:
        """May an application be placed on it?"""
        return self.state is HostState.READY and not self.leaving


@dataclass(frozen=True, slots=True)
class FleetApplication:
    """One application of the fleet, as the book has it and as its host reports it."""

    name: str
    home: str | None
    """The region that its rows come from."""
    slots: float
    """What it was announced with."""
    assigned: str | None
    """The host that it is to run on; None: to be placed."""
    host: str | None = None
    """The host that reports it as running."""
    pinned: bool = False
    """A user wants it where it is assigned."""
    ran: bool = False
    """It has had a lease before: it may go on anywhere. One that has not can wait for its region's first host."""
    load_slots: float | None = None
    """Slots that it keeps busy, on average."""
    latency_p99_s: float | None = None
    objective_s: float | None = None
    changes_alone: int = 0
    """Restarts that its host made in a silence of the centre, over its whole life."""

    @property
    def need(self) -> float:
        """Slots to plan with."""
        return self.slots if self.load_slots is None else max(self.load_slots, LEAST_SLOTS)

    @property
    def violated(self) -> bool:
        return self.latency_p99_s is not None and self.objective_s is not None and self.latency_p99_s > self.objective_s


LEAST_SLOTS = 0.05


@dataclass(frozen=True, slots=True)
class Request:
    """What a host or a region wants done and may not decide alone; it stands for as long as it is wanted."""

    sender: str
    action: Action
    reason: str
    score: float = 0.0
    """What it is worth to whoever asks: the higher, the sooner it is served."""
    urgent: bool = False
    """An objective is being missed."""


@dataclass(frozen=True)
class FleetSample:
    """The fleet, or one region of it."""

    hosts: tuple[FleetHost, ...]
    applications: tuple[FleetApplication, ...]
    requests: tuple[Request, ...] = ()
    settled: bool = True
    """False while a centre that has just begun still waits to hear from everybody."""
    host_numbers: Mapping[str, int] = field(default_factory=dict)
    """By region: the number of the newest host that was ever named there."""
    speakers: tuple[str, ...] = ()
    """Regions whose manager is at work."""
    ending: bool = False
    """The fleet is being taken down."""

    @property
    def plannable(self) -> bool:
        return self.settled and not self.ending

    @cached_property
    def on(self) -> dict[str, list[FleetApplication]]:
        """Applications by the host that they are assigned to."""
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
    """How a host or a region stands with the centre."""

    silent_s: float
    """Since it last heard from the centre."""
    granted: tuple[Action, ...] = ()
    """What the centre has agreed to and has not been done yet."""
    most_tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Operators whose tasks may be changed, and the most of each, by application."""
