"""Bugs planted on purpose: each is one small change to the fleet's code that a reviewer could have let through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.simfleet import hosts
from tidegate.domain.codec import from_json
from tidegate.fleet.agent import Agent
from tidegate.fleet.hostkeeper import HostKeeper
from tidegate.fleet.lease import LeaseFolder, LeaseRecord, LeaseWatch
from tidegate.fleet.tenant import Tenant
from tidegate.fleet.vocabulary import HostSpec


def _impatient(self: LeaseWatch) -> bool:
    """A taker waits for half of the lease only."""
    return self._seen is not None and self.unchanged_s > 0.5 * self._seen.duration_s


def _unheard(self: Agent) -> None:
    """Nobody tells the watchdog until when the leases last."""


def _raising(self: LeaseFolder, epoch: int) -> LeaseRecord:
    """A damaged file is an error, for ever."""
    return from_json(LeaseRecord, self._files.read(self._path(epoch)))


def _unrecorded(self: HostKeeper, name: str, region: str) -> None:
    """A host is written down when its start has succeeded, and not before."""
    self._registry.put_fact(f"hosts-of-{region}", int(name.rpartition("-")[2]))
    spec = HostSpec(name, region, self._config.host.slots)
    try:
        self._registry.put_host(spec, self._provider.start(spec))
    except Exception as error:
        self._registry.note("host-not-started", spec.name, str(error))


def _not_cleared(self: hosts.Runner, application: str) -> None:
    """After a failed start nobody looks whether the driver has started the query all the same."""


def _untold(self: Tenant) -> None:
    """The watchdog hears of a lease when its keeper next comes round, not before the query starts."""


MUTANTS: dict[str, tuple[Any, str, Callable[..., Any] | property]] = {
    "a taker waits for half of the lease": (LeaseWatch, "expired", property(_impatient)),
    "the watchdog is told nothing": (Agent, "_tell_watchdog", _unheard),
    "a damaged lease stays damaged": (LeaseFolder, "_record", _raising),
    "a host is written down after its start": (HostKeeper, "start", _unrecorded),
    "a failed start leaves its query running": (hosts.Runner, "clear", _not_cleared),
    "the watchdog hears of a lease too late": (Tenant, "_announce", _untold),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The fleet with this bug in it."""
    owner, attribute, wrong = MUTANTS[name]
    with patch.object(owner, attribute, wrong):
        yield
