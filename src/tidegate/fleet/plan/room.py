"""Free room on the open hosts of a fleet, tracked while a plan is made."""

from __future__ import annotations

from tidegate.domain import FleetHost, FleetSample


class Room:
    """Slots that placement may still use, by host."""

    def __init__(self, fleet: FleetSample, fill: float) -> None:
        self._open = [host for host in fleet.hosts if host.open]
        self.free = {
            host.name: fill * host.slots - sum(one.need for one in fleet.on.get(host.name, ())) for host in self._open
        }

    def take(self, host: str, slots: float) -> None:
        self.free[host] -= slots

    def find(self, slots: float, region: str | None, but: str = "") -> FleetHost | None:
        """The host with the most room, in the region if one there has enough; None if no host has enough."""
        fitting = [host for host in self._open if host.name != but and self.free[host.name] >= slots - 1e-9]
        return max(fitting, key=lambda host: (host.region == region, self.free[host.name], host.name), default=None)
