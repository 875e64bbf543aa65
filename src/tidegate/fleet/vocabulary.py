"""The vocabulary of a fleet: what is desired, assigned and observed. Plain values that are sent as JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tidegate.domain import HostSample, InvalidInput, Request
from tidegate.domain.python310 import StrEnum
from tidegate.fleet.lease import LeaseRecord

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@lru_cache(maxsize=1 << 16)
def check_name(name: str, what: str) -> str:
    """Names become folder names: letters, digits, `_.-`.

    >>> check_name("east-1", "host")
    'east-1'
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{what} {name!r}: use up to 63 letters, digits, '_', '.' or '-', starting with a letter or a digit"
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
    """Where its rows come from. It is placed there if there is room."""
    slots: float = 1.0
    """Slots that it needs, until measurements are available."""
    latency_s: float = 30.0
    """Its objective: 99 % of the rows within this many seconds."""
    elastic: dict[str, int] = field(default_factory=dict)
    """Operators whose number of tasks may change, with the maximum of each."""

    def __post_init__(self) -> None:
        check_name(self.name, "application")
        if not self.slots > 0 or not self.latency_s > 0:
            raise InvalidInput(f"application {self.name}: slots and latency must be positive")


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host to start: one Spark application with an agent."""

    name: str
    region: str
    slots: int

    def __post_init__(self) -> None:
        check_name(self.name, "host")
        check_name(self.region, "region")
        if self.slots < 1:
            raise InvalidInput(f"host {self.name}: a host needs at least one slot")


@dataclass(frozen=True, slots=True)
class HostCard:
    """What a host publishes about itself when its agent listens; a file in the fleet's folder."""

    spec: HostSpec
    incarnation: str
    """New at every start: a restarted host is a different one under the same name."""
    address: tuple[str, int]
    pid: int
    started_s: float
    process: str = ""
    """The unique identity of its process (see `identity`); empty if unknown."""

    @property
    def owner(self) -> str:
        """The name under which it holds leases."""
        return f"{self.spec.name}/{self.incarnation}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """An application that a host should run."""

    spec: ApplicationSpec
    lease: LeaseRecord | None = None
    unchanged_s: float = 0.0
    """How long the centre has seen the lease unchanged. A taker need not wait for this time again."""


class Phase(StrEnum):
    """The phase of an application on a host."""

    WAITING = "waiting"
    """Another owner still holds its lease."""
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
    """Start of this phase (wall clock)."""
    note: str = ""
    load_slots: float | None = None
    """Slots that it keeps busy on average."""
    latency_p99_s: float | None = None
    rows_done: int | None = None
    parallelism: dict[str, int] = field(default_factory=dict)
    """Tasks by operator."""
    measured: dict[str, float] = field(default_factory=dict)
    """Metrics for the fleet's QoS tables and graphs: means over a short window, by metric or `operator.metric`."""
    changes_alone: int = 0
    """Restarts that this host made while the centre was silent."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent's answer to a status request. Only sums and requests; raw metrics stay on the host."""

    card: HostCard
    generation: int
    """The newest assignment that it received."""
    tenancies: tuple[Tenancy, ...]
    requests: tuple[Request, ...] = ()
    """Changes that it may not make alone, and its region's requests if it speaks for the region."""
    speaks_for: str | None = None
    """The region whose manager runs here."""
    control: dict[str, str] = field(default_factory=dict)
    """The latest results of the controllers that run here."""
    sample: HostSample | None = None
    """The machine."""
