"""Decides where applications run: as users ask, as regions' managers ask, and by the schedulers for the rest."""

from __future__ import annotations

import time
from typing import Protocol

from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.judging import Judge
from tidegate.fleet.look import Glance, HostState
from tidegate.fleet.placing import Demand, place
from tidegate.fleet.registry import ApplicationEntry, HostEntry, Registry
from tidegate.fleet.state import HostSpec, Phase, RegionWish, Tenancy
from tidegate.fleet.steady import steady_s

_LEAST_SLOTS = 0.05


class MoveTokens(Protocol):
    """Who limits the moves."""

    def may_move(self, application: str, time_s: float) -> bool:
        """Is there a token for moving it? Asked right before it is done."""
        ...


class Assigner:
    """Writes assignments to the registry; agents are told by the centre."""

    def __init__(
        self, folder: FleetFolder, config: FleetConfig, registry: Registry, judge: Judge, tokens: MoveTokens | None
    ) -> None:
        self._folder = folder
        self._config = config
        self._registry = registry
        self._judge = judge
        self._tokens = tokens
        self._moved_s = steady_s()

    def assign(self, states: dict[str, HostState], glances: dict[str, Glance]) -> None:
        """First what users ask for, then what regions ask for, then what has no host, then at most one improvement."""
        hosts = self._registry.hosts()
        ready = {name for name, state in states.items() if state is HostState.READY and name in hosts}
        open_hosts = {name: hosts[name].spec for name in sorted(ready) if not hosts[name].leaving}
        seen = tenancies(glances)
        for name, app in self._registry.applications().items():
            if not app.wanted:
                self._finish(name, seen)
            elif app.asked_host is not None:
                self._as_asked(name, app, set(open_hosts), states)
        self._seat(wishes(glances), set(open_hosts))
        applications = {
            name: app
            for name, app in self._registry.applications().items()
            # Those on hosts that are away stay there, and take up none of the others' room.
            if app.wanted and (app.host is None or app.host in ready)
        }
        homeless = [name for name, app in applications.items() if app.host not in open_hosts]
        coming = {hosts[name].spec.region for name, state in states.items() if state is HostState.STARTING}
        coming -= {host.region for host in open_hosts.values()}
        # One that has never run can wait for its region's first host; one that was lost goes on anywhere.
        waiting = {n for n in homeless if applications[n].spec.region in coming and self._judge.lease(n)[0] is None}
        homeless = [name for name in homeless if name not in waiting]
        rested = steady_s() - self._moved_s >= self._config.timing.move_pause_s
        if open_hosts and (homeless or (rested and applications)):
            placeable = {name: app for name, app in applications.items() if name not in waiting}
            self._place(placeable, homeless, list(open_hosts.values()), hosts, seen)

    def unassign_all(self) -> None:
        """The fleet ends."""
        for name, app in self._registry.applications().items():
            if app.host is not None:
                self._registry.assign(name, None)

    def _place(
        self,
        applications: dict[str, ApplicationEntry],
        homeless: list[str],
        open_hosts: list[HostSpec],
        hosts: dict[str, HostEntry],
        seen: dict[str, tuple[str, Tenancy]],
    ) -> None:
        demands = [Demand(name, _slots(app, seen.get(name)), app.spec.region) for name, app in applications.items()]
        current = {name: str(app.host) for name, app in applications.items() if name not in homeless}
        moves = 0 if homeless else 1
        found = place(open_hosts, demands, current, moves=moves, rule=self._config.scheduler, fill=self._config.fill)
        for name in homeless:
            self._write(name, found.hosts[name], "placed")
        for name, host in found.hosts.items() if moves else ():
            was = current[name]
            if host == was or name not in seen or applications[name].asked_host == was:
                continue
            # Inside a region its own manager decides; the centre only brings applications from one to another.
            across = hosts[host].spec.region != hosts[was].spec.region
            if self._tokens is None or (across and self._tokens.may_move(name, time.time())):
                self._write(name, host, f"moved from {was}")
        if moves:
            self._moved_s = steady_s()

    def _as_asked(self, name: str, app: ApplicationEntry, open_hosts: set[str], states: dict[str, HostState]) -> None:
        """Where a user wants it, it stays for as long as that host is there."""
        target = str(app.asked_host)
        if app.host == target and target in states:
            return
        if app.host is None:
            self._registry.ask_host(name, None)  # that host was lost, or the application never ran: it goes anywhere
        elif target not in open_hosts:
            self._registry.ask_host(name, None)
            self._registry.note("move-refused", name, f"host {target} is not ready")
        elif states.get(app.host) is HostState.AWAY:
            self._registry.ask_host(name, None)
            self._registry.note("move-refused", name, f"it runs on {app.host}, which cannot be reached")
        else:
            self._write(name, target, f"moved from {app.host}, as asked")
            self._moved_s = steady_s()

    def _seat(self, asked: list[RegionWish], open_hosts: set[str]) -> None:
        """Moves that a region's manager wants and the application's has agreed to."""
        applications = self._registry.applications()
        for wish in asked:
            for name, host in wish.seats.items():
                app = applications.get(name)
                movable = app is not None and app.wanted and app.host is not None and app.asked_host != app.host
                if app is not None and movable and host in open_hosts and app.host != host:
                    self._write(name, host, f"moved from {app.host}: {wish.region} asks")
                    self._moved_s = steady_s()

    def _write(self, application: str, host: str, why: str) -> None:
        if self._judge.lease(application)[0] is None:
            self._folder.lease(application).create()
        self._registry.assign(application, host)
        self._registry.note("application-assigned", application, f"to {host}: {why}")

    def _finish(self, name: str, seen: dict[str, tuple[str, Tenancy]]) -> None:
        """An application that is to end is forgotten when nobody runs it any more."""
        if self._judge.nobody_runs(name) and name not in seen:
            self._registry.forget_application(name)
            self._registry.note("application-ended", name)


def tenancies(glances: dict[str, Glance]) -> dict[str, tuple[str, Tenancy]]:
    """Who runs what, as the hosts say."""
    return {
        tenancy.spec.name: (name, tenancy)
        for name, glance in glances.items()
        if glance.status is not None
        for tenancy in glance.status.tenancies
        if tenancy.phase is not Phase.WAITING
    }


def wishes(glances: dict[str, Glance]) -> list[RegionWish]:
    """What the regions' managers want done."""
    statuses = [glance.status for glance in glances.values() if glance.status is not None]
    return [status.wish for status in statuses if status.wish is not None]


def _slots(app: ApplicationEntry, seen: tuple[str, Tenancy] | None) -> float:
    """What it keeps busy, where that is known; otherwise what it was announced with."""
    load = seen[1].load_slots if seen is not None else None
    return app.spec.slots if load is None else max(load, _LEAST_SLOTS)
