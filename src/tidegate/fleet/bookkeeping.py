"""Keeps the fleet's registry up to date: adopts what it finds, removes what is lost, records what users request."""

from __future__ import annotations

from tidegate.domain import HostState
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hostkeeper import HostKeeper
from tidegate.fleet.judging import Judge
from tidegate.fleet.look import Glance, Occupancy
from tidegate.fleet.registry import ApplicationEntry, Registry
from tidegate.fleet.vocabulary import Phase


class Bookkeeper:
    """Carries out user requests and records events. All other decisions belong to the centre's controller."""

    def __init__(self, folder: FleetFolder, registry: Registry, judge: Judge, keeper: HostKeeper) -> None:
        self._folder = folder
        self._clock = folder.clock
        self._registry = registry
        self._judge = judge
        self._keeper = keeper
        self._lost_s: dict[str, float] = {}

    def adopt(self, glances: dict[str, Glance]) -> None:
        """Add hosts and applications that run but are not in the registry, because they are older than it."""
        hosts, applications = self._registry.hosts(), self._registry.applications()
        for name, glance in glances.items():
            if glance.status is None:
                continue
            if name not in hosts:
                self._registry.put_host(glance.card.spec, None)
                self._folder.enrol(glance.card.spec)
                self._registry.note("host-adopted", name, f"region {glance.card.spec.region}")
            for tenancy in glance.status.tenancies:
                entry = applications.get(tenancy.spec.name)
                if entry is not None and entry.host is not None:
                    continue
                if tenancy.phase not in {Phase.STARTING, Phase.RUNNING}:
                    continue
                if entry is None:
                    self._registry.put_application(tenancy.spec, name)
                    self._registry.note("application-adopted", tenancy.spec.name, f"it runs on {name}")
                elif entry.wanted:
                    self._registry.assign(tenancy.spec.name, name)

    def recover(self, states: dict[str, HostState], seen: Occupancy) -> list[str]:
        """Handle lost hosts: their applications become unplaced, and what is left of the hosts is removed."""
        lost = [name for name, state in states.items() if state is HostState.LOST]
        hosts = self._registry.hosts()
        assigned: dict[str, list[str]] = {name: [] for name in lost}
        for application, app in self._registry.applications().items() if lost else ():
            if app.host in assigned:
                assigned[app.host].append(application)
        for name in lost:
            silent_s = self._judge.silent_s(name)
            event = "host-gone" if self._keeper.leaving(name) else "host-lost"
            with self._registry.together():
                self._registry.note(event, name, f"last answered {silent_s:.1f} s ago")
                for application in assigned[name]:
                    self._registry.assign(application, None)
                    self._lost_s[application] = self._clock.steady_s() - silent_s
                    self._registry.note("application-lost", application, f"with {name}")
            self._keeper.clear_away(name, hosts[name])
            self._judge.forget(name)
            del states[name]
        recovered = [
            (application, host)
            for application in self._lost_s
            if (found := seen.tenants.get(application)) is not None
            for host, tenancy in (found,)
            if tenancy.phase is Phase.RUNNING and host in states
        ]
        if recovered:
            with self._registry.together():
                for application, host in recovered:
                    took_s = self._clock.steady_s() - self._lost_s.pop(application)
                    self._registry.note("application-recovered", application, f"on {host} after {took_s:.1f} s")
        return lost

    def as_asked(self, states: dict[str, HostState], seen: Occupancy) -> None:
        """Carry out moves and stops that users requested."""
        open_hosts = self.open_hosts(states)
        for name, app in self._registry.applications().items():
            if not app.wanted:
                self._finish(name, seen)
            elif app.asked_host is not None:
                self._move(name, app, open_hosts, states)

    def end_all(self) -> None:
        """The fleet is stopping: withdraw all assignments and let all hosts go."""
        for name, app in self._registry.applications().items():
            if app.host is not None:
                self._registry.assign(name, None)
        for name, entry in self._registry.hosts().items():
            if not entry.leaving:
                self._keeper.let_go(name, "the fleet is stopping")

    def assign(self, application: str, host: str, why: str) -> None:
        if self._judge.lease(application)[0] is None:
            self._folder.lease(application).create()
        self._registry.assign(application, host)
        self._registry.note("application-assigned", application, f"to {host}: {why}")

    def open_hosts(self, states: dict[str, HostState]) -> set[str]:
        hosts = self._registry.hosts()
        ready = (name for name, state in states.items() if state is HostState.READY)
        return {name for name in ready if name in hosts and not hosts[name].leaving}

    def publish(self, states: dict[str, HostState], glances: dict[str, Glance]) -> None:
        """Publish the states of the hosts, for `fleet status`."""
        notes = {name: glances[name].note for name in states if name in glances and glances[name].note}
        before = self._registry.fact("view", {}).get("hosts", {})
        hosts = {name: str(state) for name, state in states.items()}
        with self._registry.together():
            for name, state in states.items():
                if before.get(name) != state and state in {HostState.READY, HostState.AWAY, HostState.REFUSED}:
                    self._registry.note(f"host-{state}", name, notes.get(name, ""))
            self._registry.put_fact("view", {"time_s": self._clock.wall_s(), "hosts": hosts, "notes": notes})

    def _move(self, name: str, app: ApplicationEntry, open_hosts: set[str], states: dict[str, HostState]) -> None:
        """Move an application to the host that a user chose. It stays there as long as that host exists."""
        target = str(app.asked_host)
        if app.host == target and target in states:
            return
        if app.host is None:
            self._registry.ask_host(name, None)  # the host was lost, or the application never ran: place it anywhere
        elif target not in open_hosts:
            self._registry.ask_host(name, None)
            self._registry.note("move-refused", name, f"host {target} is not ready")
        elif states.get(app.host) is HostState.AWAY:
            self._registry.ask_host(name, None)
            self._registry.note("move-refused", name, f"it runs on {app.host}, which cannot be reached")
        else:
            self.assign(name, target, f"moved from {app.host}, as requested")

    def _finish(self, name: str, seen: Occupancy) -> None:
        """Forget an application that is to stop, once no host runs it."""
        if self._judge.nobody_runs(name) and name not in seen.tenants:
            self._registry.forget_application(name)
            self._registry.note("application-ended", name)
