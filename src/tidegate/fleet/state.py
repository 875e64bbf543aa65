"""The vocabulary of a fleet: what is wanted, what was assigned, what is seen. Plain values that travel as JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tidegate.domain import HostSample, InvalidInput, Request
from tidegate.domain.python310 import StrEnum
from tidegate.fleet.lease import LeaseRecord

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def check_name(name: str, what: str) -> str:
    """Names become folders: letters, digits, `_.-`.

    >>> check_name("east-1", "host")
    'east-1'
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{what} {name!r}: use up to 63 letters, digits, '_', '.' or '-', beginning with one of them"
        )
    return name


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """A streaming application: how to build it, and what it needs."""

    name: str
    build: str
    """`module:function` or `path/to/file.py[:function]`; the function is `build(spark, settings, **arguments)`."""
    arguments: dict[str, Any] = field(default_factory=dict)
    region: str | None = None
    """Where its rows come from: it is placed there while there is room."""
    slots: float = 1.0
    """Slots that it needs, until its own numbers say so."""
    latency_s: float = 30.0
    """Its objective: 99 % of the rows within so many seconds."""
    elastic: dict[str, int] = field(default_factory=dict)
    """Operators whose tasks may be changed, and the most of each."""

    def __post_init__(self) -> None:
        check_name(self.name, "application")
        if not self.slots > 0 or not self.latency_s > 0:
            raise InvalidInput(f"application {self.name}: slots and latency are positive")


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host to be had: one Spark application with an agent."""

    name: str
    region: str
    slots: int

    def __post_init__(self) -> None:
        check_name(self.name, "host")
        check_name(self.region, "region")
        if self.slots < 1:
            raise InvalidInput(f"host {self.name}: a host has at least one slot")


@dataclass(frozen=True, slots=True)
class HostCard:
    """What a host says of itself when its agent listens; a file in the fleet's folder."""

    spec: HostSpec
    incarnation: str
    """New at every start: a host that was started again is another one, under the same name."""
    address: tuple[str, int]
    pid: int
    started_s: float
    process: str = ""
    """Which process it is, for good (see `identity`); empty where nobody could tell."""

    @property
    def owner(self) -> str:
        """As it signs its leases."""
        return f"{self.spec.name}/{self.incarnation}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """An application that a host is to run."""

    spec: ApplicationSpec
    lease: LeaseRecord | None = None
    unchanged_s: float = 0.0
    """The centre has seen the lease say just this for so long: a taker need not wait for it again."""


class Phase(StrEnum):
    """An application on a host."""

    WAITING = "waiting"
    """Its lease is still another's."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Tenancy:
    """An application as its host sees it."""

    spec: ApplicationSpec
    phase: Phase
    epoch: int | None
    since_s: float
    """In this phase since (wall clock)."""
    note: str = ""
    load_slots: float | None = None
    """Slots that it keeps busy, on average."""
    latency_p99_s: float | None = None
    rows_done: int | None = None
    parallelism: dict[str, int] = field(default_factory=dict)
    """Tasks by operator."""
    measured: dict[str, float] = field(default_factory=dict)
    """What the fleet's QoS tables and graphs ask for: means over a short window, by metric, or `operator.metric`."""
    changes_alone: int = 0
    """Restarts that this host made in a silence of the centre."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """What an agent answers when it is asked how things are. Only sums and requests: raw metrics stay on the host."""

    card: HostCard
    generation: int
    """The newest assignment that it has been given."""
    tenancies: tuple[Tenancy, ...]
    requests: tuple[Request, ...] = ()
    """What it may not decide alone, and its region's requests from the host that speaks for the region."""
    speaks_for: str | None = None
    """The region whose manager works here."""
    control: dict[str, str] = field(default_factory=dict)
    """What the controllers that work here last came to."""
    sample: HostSample | None = None
    """The machine."""
