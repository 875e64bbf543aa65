"""The centre: brings what is seen of the fleet to what is wanted of it, one step at a time.

Every step looks at the whole fleet anew and acts on the difference, so nothing depends on a message that was lost,
and a centre that was killed goes on where it ended. It stops no query itself: it tells agents what they should run.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Protocol

from tidegate.domain import TidegateError
from tidegate.domain.policy import Policy
from tidegate.fleet.agent import desire_fields
from tidegate.fleet.assigning import Assigner, tenancies, wishes
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hosting import HostKeeper
from tidegate.fleet.judging import Judge
from tidegate.fleet.look import Glance, HostState, Lookout
from tidegate.fleet.protocol import read_token
from tidegate.fleet.provider import Provider
from tidegate.fleet.registry import Registry
from tidegate.fleet.state import Assigned, Phase
from tidegate.fleet.steady import steady_s
from tidegate.monitor.measurement import plan_measurements

logger = logging.getLogger("tidegate")

_SHORTEST_PAUSE_S = 0.05


class CentralManagers(Protocol):
    """The managers that work at the centre."""

    def step(self, glances: dict[str, Glance], time_s: float) -> dict[str, list[str]]:
        """Read what the hosts' managers say; the answers, encoded, by host."""
        ...

    def host_targets(self) -> dict[str, int]:
        """Hosts that each region should have."""
        ...

    def may_move(self, application: str, time_s: float) -> bool:
        """Is there a token for moving it? Asked right before it is done."""
        ...


class Centre:
    """One step after another; `run` makes them at the pace of the fleet's file."""

    def __init__(
        self,
        folder: FleetFolder,
        config: FleetConfig,
        provider: Provider,
        registry: Registry,
        managers: CentralManagers | None = None,
    ) -> None:
        self._folder = folder
        self._config = config
        self._registry = registry
        self._managers = managers
        self._lookout = Lookout(folder, read_token(folder.token), drain=True)
        self._judge = Judge(folder, config, provider, registry)
        self._keeper = HostKeeper(folder, config, provider, registry, self._lookout)
        self._assigner = Assigner(folder, config, registry, self._judge, managers)
        for region in config.regions:
            folder.region_lease(region).create()
        self._generation: int | None = None
        self._told: dict[str, tuple[str, ...]] = {}
        self._lost_s: dict[str, float] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        """Step until told to end. A step that fails is reported, and the next one tries again."""
        while not self._ended.is_set():
            began_s = steady_s()
            try:
                self.step()
            except Exception as error:  # a full disk or a broken provider must not end the centre
                logger.exception("a step of the centre failed")
                with contextlib.suppress(Exception):  # the registry is on the same disk
                    self._registry.note("step-failed", "centre", f"{type(error).__name__}: {error}")
            self._ended.wait(max(_SHORTEST_PAUSE_S, self._config.timing.poll_s - (steady_s() - began_s)))

    def end(self) -> None:
        self._ended.set()

    def step(self) -> None:
        """Look, judge, recover, size, assign, tell."""
        down = bool(self._registry.fact("down", False))
        glances = self._lookout.look()
        if not down:
            self._adopt(glances)
        states = self._judge.states(glances)
        self._publish(states, glances)
        if self._generation is None:
            if not self._judge.settled(states):
                return  # just begun: first hear from everybody, so that nothing is changed for want of news
            seen = [glance.status.generation for glance in glances.values() if glance.status is not None]
            self._generation = self._registry.next_generation(max(seen, default=0) + 1)
        self._recover(states, glances)
        answers = self._managers.step(glances, time.time()) if self._managers is not None else {}
        targets = self._managers.host_targets() if self._managers is not None else {}
        released = {host for wish in wishes(glances) for host in wish.release}
        self._keeper.size(states, glances, targets, released, down)
        if down:
            self._assigner.unassign_all()
        else:
            self._assigner.assign(states, glances)
        self._tell(states, glances, answers)

    def _adopt(self, glances: dict[str, Glance]) -> None:
        """Hosts and applications that are there and not in the book, because the book is younger than they are."""
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
                if tenancy.phase not in {Phase.STARTING, Phase.RUNNING}:
                    continue
                if entry is None:
                    self._registry.put_application(tenancy.spec, name)
                    self._registry.note("application-adopted", tenancy.spec.name, f"it runs on {name}")
                elif entry.host is None and entry.wanted:
                    self._registry.assign(tenancy.spec.name, name)

    def _recover(self, states: dict[str, HostState], glances: dict[str, Glance]) -> None:
        """Hosts that are lost: their applications are to be placed anew, the rest of them is cleared away."""
        hosts = self._registry.hosts()
        for name in [name for name, state in states.items() if state is HostState.LOST]:
            silent_s = self._judge.silent_s(name)
            event = "host-gone" if self._keeper.leaving(name) else "host-lost"
            self._registry.note(event, name, f"last heard of {silent_s:.1f} s ago")
            for application, app in self._registry.applications().items():
                if app.host == name:
                    self._registry.assign(application, None)
                    self._lost_s[application] = steady_s() - silent_s
                    self._registry.note("application-lost", application, f"with {name}")
            self._keeper.clear_away(name, hosts[name])
            self._judge.forget(name)
            self._told.pop(name, None)
            del states[name]
        for application, (host, tenancy) in tenancies(glances).items():
            if tenancy.phase is Phase.RUNNING and host in states and application in self._lost_s:
                took_s = steady_s() - self._lost_s.pop(application)
                self._registry.note("application-recovered", application, f"on {host} after {took_s:.1f} s")

    def _tell(self, states: dict[str, HostState], glances: dict[str, Glance], answers: dict[str, list[str]]) -> None:
        """Every host hears, in every step, all that it should run and what it should measure of it."""
        assert self._generation is not None
        by_host: dict[str, list[Assigned]] = {name: [] for name in states}
        for name, app in self._registry.applications().items():
            if app.wanted and app.host in by_host:
                by_host[app.host].append(Assigned(app.spec, *self._judge.lease(name)))
        told = {name: tuple(sorted(each.spec.name for each in assigned)) for name, assigned in by_host.items()}
        if told != self._told:
            self._generation = self._registry.next_generation()
            self._told = told
        policy = Policy(interval_s=self._config.timing.measure_s, applications=self._config.applications)
        placement = {each.spec.name: [host] for host, assigned in by_host.items() for each in assigned}
        measurements = plan_measurements(policy, placement)
        for name, assigned in by_host.items():
            glance = glances.get(name)
            if glance is None or glance.status is None:
                continue
            try:
                messages, measure = answers.get(name, []), measurements.for_host(name)
                fields = desire_fields(self._generation, assigned, messages, measure)
                self._lookout.client(glance.card).ask("desire", fields)
            except TidegateError as error:
                logger.info("%s was not told: %s", name, error)

    def _publish(self, states: dict[str, HostState], glances: dict[str, Glance]) -> None:
        """For those who look on."""
        notes = {name: glances[name].note for name in states if name in glances and glances[name].note}
        before = self._registry.fact("view", {}).get("hosts", {})
        for name, state in states.items():
            if before.get(name) != state and state in {HostState.READY, HostState.AWAY, HostState.REFUSED}:
                self._registry.note(f"host-{state}", name, notes.get(name, ""))
        hosts = {name: str(state) for name, state in states.items()}
        self._registry.put_fact("view", {"time_s": time.time(), "hosts": hosts, "notes": notes})
