"""Starts hosts, shuts them down, and cleans up after them."""

from __future__ import annotations

from contextlib import suppress

from tidegate.domain import EnvironmentUnfit, HostState, TidegateError
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.look import Glance, Lookout
from tidegate.fleet.provider import Provider
from tidegate.fleet.registry import STARTING, HostEntry, Registry
from tidegate.fleet.vocabulary import HostSpec

_END_WAIT_S = 90.0


class HostKeeper:
    """Starts hosts and shuts them down. A host that runs something is never stopped, unless the whole fleet stops."""

    def __init__(
        self, folder: FleetFolder, config: FleetConfig, provider: Provider, registry: Registry, lookout: Lookout
    ) -> None:
        self._folder = folder
        self._clock = folder.clock
        self._config = config
        self._provider = provider
        self._registry = registry
        self._lookout = lookout
        self._ending_since_s: dict[str, float] = {}

    def start(self, name: str, region: str) -> None:
        """Start a host of this name. Raises `EnvironmentUnfit` if it does not start; nothing of it is left then."""
        number = name.rpartition("-")[2]
        if number.isdecimal():
            known = int(self._registry.fact(f"hosts-of-{region}", 0))
            self._registry.put_fact(f"hosts-of-{region}", max(known, int(number)))
        spec = HostSpec(name, region, self._config.host.slots)
        # Record it first: whatever happens to the start or to this centre, the host is known and gets cleaned up.
        self._registry.put_host(spec, STARTING)
        try:
            handle = self._provider.start(spec)
        except Exception as error:  # providers are third-party code
            text = f"{type(error).__name__}: {error}"
            self._registry.note("host-not-started", spec.name, text)
            self.clear_away(spec.name, HostEntry(spec, STARTING, False, self._clock.wall_s()))
            raise EnvironmentUnfit(text) from None
        self._registry.put_host(spec, handle)
        self._folder.enrol(spec)
        self._registry.note("host-started", spec.name, f"region {region}")

    def let_go(self, name: str, why: str) -> None:
        """Drain the host: it takes no more applications, hands over those it has, and stops."""
        self._registry.let_host_go(name)
        self._folder.strike_off(name)
        self._registry.note("host-leaving", name, why)

    def see_off(self, states: dict[str, HostState], glances: dict[str, Glance]) -> None:
        """Stop leaving hosts once they run nothing. A host that does not stop is removed by its provider."""
        for name, entry in self._registry.hosts().items():
            if entry.leaving and states.get(name) is HostState.READY:
                self._see_off(name, entry, glances.get(name))

    def leaving(self, name: str) -> bool:
        """Was it told to stop?"""
        return name in self._ending_since_s

    def clear_away(self, name: str, entry: HostEntry) -> None:
        """Remove what is left of a host, and forget it."""
        if entry.handle is not None:
            try:
                self._take_away(entry)
            except Exception as error:  # its leases have expired, so a leftover process does no harm
                self._registry.note("host-not-cleared", name, str(error))
        self._registry.forget_host(name)
        self._folder.strike_off(name)
        if (card := self._folder.read_card(name)) is not None:
            self._folder.remove_card(card)
        self._ending_since_s.pop(name, None)

    def _take_away(self, entry: HostEntry) -> None:
        if entry.handle == STARTING:
            self._provider.abandon(entry.spec)
        elif entry.handle is not None:
            self._provider.stop(entry.handle)

    def _see_off(self, name: str, entry: HostEntry, glance: Glance | None) -> None:
        if glance is None or glance.status is None or glance.status.tenancies:
            return
        since_s = self._ending_since_s.setdefault(name, self._clock.steady_s())
        with suppress(TidegateError):  # it may be stopping already
            self._lookout.client(glance.card).ask("end")
        if self._clock.steady_s() - since_s > _END_WAIT_S:
            self.clear_away(name, entry)
        elif entry.handle is None:  # its end cannot be observed
            self._registry.forget_host(name)
