"""Judges the state of every host by its answers, its provider, and its leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from tidegate.domain import HostState
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.lease import LeaseRecord, LeaseWatch
from tidegate.fleet.look import Glance
from tidegate.fleet.provider import Provider
from tidegate.fleet.registry import STARTING, ApplicationEntry, HostEntry, Registry

_MOST_NEW = 2000
"""Leases that are read for the first time in one step."""
_MOST_IDLE = 500
"""Leases read in one step of applications that have neither a lease nor a host. Nobody is about to take those."""


@dataclass(slots=True)
class _Acquaintance:
    """What is remembered about a host between two looks."""

    first_s: float
    answered_s: float | None = None


class Judge:
    """Tracks answers and leases from step to step.

    | observed | state |
    |---|---|
    | its agent answers | ready |
    | it does not know the token | refused |
    | its provider says that it has ended | lost |
    | it has never answered and holds no lease | starting; lost after `start_limit_s` |
    | no answer for less than `lost_after_s` | unchanged |
    | no answer, but it renews its leases | away: its applications run and are left alone |
    | no answer, and one of its leases has expired | lost |
    """

    def __init__(self, folder: FleetFolder, config: FleetConfig, provider: Provider, registry: Registry) -> None:
        self._folder = folder
        self._clock = folder.clock
        self._timing = config.timing
        self._provider = provider
        self._registry = registry
        self._known: dict[str, _Acquaintance] = {}
        self._watches: dict[str, LeaseWatch] = {}
        self._leases: dict[str, LeaseRecord | None] = {}
        self._unread = 0
        self._began_s = self._clock.steady_s()

    def states(self, glances: dict[str, Glance], held: set[str]) -> dict[str, HostState]:
        """The state of every host in the registry. Leases of applications that no host reports as `held` are read."""
        self._watch_leases(held)
        moment_s = self._clock.steady_s()
        states: dict[str, HostState] = {}
        for name, entry in self._registry.hosts().items():
            glance = glances.get(name)
            known = self._known.setdefault(name, _Acquaintance(moment_s))
            if glance is not None and glance.status is not None:
                known.answered_s = moment_s
                states[name] = HostState.READY
            elif glance is not None and glance.refused:
                states[name] = HostState.REFUSED
            else:
                states[name] = self._absent(name, entry, known)
        return states

    def settled(self, states: dict[str, HostState]) -> bool:
        """After a start: is every lease known, and has every host answered, or had enough time to answer?"""
        if self._unread:
            return False
        waiting = any(state in {HostState.AWAY, HostState.STARTING} for state in states.values())
        silent = any(self._known[name].answered_s is None for name in states)
        return (
            not (waiting or silent)
            or self._clock.steady_s() - self._began_s > self._timing.lost_after_s + self._timing.lease_s
        )

    def silent_s(self, host: str) -> float:
        """Seconds since it last answered, or since it was first expected."""
        known = self._known[host]
        return self._clock.steady_s() - (known.first_s if known.answered_s is None else known.answered_s)

    def lease(self, application: str) -> tuple[LeaseRecord | None, float]:
        """The lease of an application, and how long it has been unchanged."""
        watch = self._watches.get(application)
        return self._leases.get(application), watch.unchanged_s if watch is not None else 0.0

    def ran(self, application: str) -> bool:
        """Has it held a lease before? Known only if no host reports it as running."""
        return self._leases.get(application) is not None

    def nobody_runs(self, application: str) -> bool:
        """Is it certain that no host runs this application?"""
        return application in self._watches and self._watches[application].free

    def forget(self, host: str) -> None:
        self._known.pop(host, None)

    def _watch_leases(self, held: set[str]) -> None:
        """Read the leases that no host reports as held. With thousands of applications, reading all is too slow."""
        applications = self._registry.applications()
        for gone in [name for name in self._watches if name in held or name not in applications]:
            del self._watches[gone]
            self._leases.pop(gone, None)
        for name in self._due(applications, held):
            watch = self._watches.pop(name, None) or LeaseWatch(self._clock, self._timing.lease_s)
            self._watches[name] = watch  # those read last are at the end
            try:
                record = self._folder.lease(name).read()
            except (OSError, ValueError):
                continue  # an unreadable lease says nothing about its holder
            watch.look(record)
            self._leases[name] = record

    def _due(self, applications: Mapping[str, ApplicationEntry], held: set[str]) -> list[str]:
        """Leases to read now: all that may be held or taken, and some of the others in turn."""
        unheld = applications.keys() - held
        new = sorted(unheld - self._watches.keys())
        self._unread = max(0, len(new) - _MOST_NEW)
        idle = {name for name in unheld if applications[name].host is None and self._leases.get(name) is None}
        in_turn = islice((name for name in self._watches if name in idle), _MOST_IDLE)
        return [*new[:_MOST_NEW], *in_turn, *(unheld - idle - set(new))]

    def _absent(self, name: str, entry: HostEntry, known: _Acquaintance) -> HostState:
        timing, silent_s = self._timing, self.silent_s(name)
        if entry.handle not in {None, STARTING} and self._provider.alive(str(entry.handle)) is False:
            return HostState.LOST
        held = [application for application in self._leases if self._holds(application, name)]
        if known.answered_s is None and not held:
            return HostState.LOST if silent_s > timing.start_limit_s else HostState.STARTING
        if silent_s <= timing.lost_after_s:
            return HostState.AWAY if known.answered_s is None else HostState.READY
        if any(not self._watches[application].expired for application in held):
            return HostState.AWAY  # it renews its leases, so it runs; only the connection is broken
        return HostState.LOST if held or silent_s > timing.start_limit_s else HostState.AWAY

    def _holds(self, application: str, host: str) -> bool:
        record = self._leases.get(application)
        return record is not None and not record.released and record.owner.partition("/")[0] == host
