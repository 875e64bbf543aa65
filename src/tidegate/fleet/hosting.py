"""Keeps as many hosts in every region as it should have: starts them, sees them off, clears up after them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tidegate.domain import TidegateError
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.look import Glance, HostState, Lookout
from tidegate.fleet.provider import Provider
from tidegate.fleet.registry import HostEntry, Registry
from tidegate.fleet.state import HostSpec
from tidegate.fleet.steady import steady_s

_END_WAIT_S = 90.0


class HostKeeper:
    """Brings the number of hosts to its target. A host that runs something is never let go of."""

    def __init__(
        self, folder: FleetFolder, config: FleetConfig, provider: Provider, registry: Registry, lookout: Lookout
    ) -> None:
        self._folder = folder
        self._config = config
        self._provider = provider
        self._registry = registry
        self._lookout = lookout
        self._empty_since_s: dict[str, float] = {}
        self._ending_since_s: dict[str, float] = {}

    def size(
        self,
        states: dict[str, HostState],
        glances: dict[str, Glance],
        targets: Mapping[str, int],
        released: set[str],
        down: bool,
    ) -> None:
        """Start the hosts that regions lack, let go those that they have too many of; all, where the fleet ends."""
        hosts = self._registry.hosts()
        for region, rule in self._config.regions.items():
            target = 0 if down else min(max(targets.get(region, rule.min_hosts), rule.min_hosts), rule.max_hosts)
            staying = [
                name
                for name, entry in hosts.items()
                if entry.spec.region == region and not entry.leaving and states.get(name) is not HostState.LOST
            ]
            for _ in range(target - len(staying)):
                if len(self._registry.hosts()) < self._config.most_hosts:
                    self._start(region)
            empty = [name for name in staying if not self._inhabited(name) and self._long_empty(name, released)]
            for name in (staying if down else empty)[::-1][: max(0, len(staying) - target)]:
                self._registry.let_host_go(name)
                self._folder.strike_off(name)
                self._registry.note("host-leaving", name, f"{region} has {len(staying)} hosts and needs {target}")
        for name, entry in self._registry.hosts().items():
            if entry.leaving and states.get(name) is HostState.READY:
                self._see_off(name, entry, glances.get(name))

    def leaving(self, name: str) -> bool:
        """Was it told to end?"""
        return name in self._ending_since_s

    def clear_away(self, name: str, entry: HostEntry) -> None:
        """Whatever is left of a host goes, and it is forgotten."""
        if entry.handle is not None:
            try:
                self._provider.stop(entry.handle)
            except TidegateError as error:  # its leases have run out; a leftover process can do no harm
                self._registry.note("host-not-cleared", name, str(error))
        self._registry.forget_host(name)
        self._folder.strike_off(name)
        if (card := self._folder.read_card(name)) is not None:
            self._folder.remove_card(card)
        self._ending_since_s.pop(name, None)
        self._empty_since_s.pop(name, None)

    def _start(self, region: str) -> None:
        taken = {*self._registry.hosts(), *(card.spec.name for card in self._folder.cards())}
        number = int(self._registry.fact(f"hosts-of-{region}", 0)) + 1
        while f"{region}-{number}" in taken:
            number += 1
        self._registry.put_fact(f"hosts-of-{region}", number)
        spec = HostSpec(f"{region}-{number}", region, self._config.host.slots)
        try:
            self._registry.put_host(spec, self._provider.start(spec))
        except TidegateError as error:
            self._registry.note("host-not-started", spec.name, str(error))
            return
        self._folder.enrol(spec)
        self._registry.note("host-started", spec.name, f"region {region}")

    def _inhabited(self, name: str) -> bool:
        inhabited = any(app.host == name for app in self._registry.applications().values())
        if inhabited:
            self._empty_since_s.pop(name, None)
        return inhabited

    def _long_empty(self, name: str, released: set[str]) -> bool:
        """Empty for a while, or its region's manager has waited long enough already."""
        since_s = self._empty_since_s.setdefault(name, steady_s())
        return name in released or steady_s() - since_s >= self._config.timing.spare_s

    def _see_off(self, name: str, entry: HostEntry, glance: Glance | None) -> None:
        """A leaving host ends when it runs nothing any more; one that does not is taken away."""
        if glance is None or glance.status is None or glance.status.tenancies:
            return
        since_s = self._ending_since_s.setdefault(name, steady_s())
        with suppress(TidegateError):  # it may be on its way out already
            self._lookout.client(glance.card).ask("end")
        if steady_s() - since_s > _END_WAIT_S:
            self.clear_away(name, entry)
        elif entry.handle is None:  # nobody can tell when it has gone
            self._registry.forget_host(name)
