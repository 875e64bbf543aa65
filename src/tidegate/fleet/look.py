"""Looks at the hosts of a fleet: asks every agent at once, and says what each host is by what is seen of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from tidegate.domain import TidegateError
from tidegate.domain.codec import from_json
from tidegate.fleet.calls import Client
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.protocol import Refused
from tidegate.fleet.state import AgentStatus, HostCard


class HostState(StrEnum):
    """What a host is to the centre."""

    STARTING = "starting"
    READY = "ready"
    AWAY = "away"
    """No answer; its applications may well run, and are left alone as long as their leases are renewed."""
    REFUSED = "refused"
    """It does not know the fleet's token."""
    LOST = "lost"
    """Gone for certain, or all that it ran has let its lease run out."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What one look at one host came to."""

    card: HostCard
    status: AgentStatus | None
    refused: bool = False
    note: str = ""


class Lookout:
    """Keeps a connection to every agent. All are asked at the same time: one that hangs delays nobody else.

    `drain` is for the centre: what the managers have to say comes along.
    """

    def __init__(self, folder: FleetFolder, token: bytes, timeout_s: float = 2.0, drain: bool = False) -> None:
        self._folder = folder
        self._token = token
        self._timeout_s = timeout_s
        self._drain = drain
        self._clients: dict[str, tuple[HostCard, Client]] = {}

    def look(self, region: str | None = None) -> dict[str, Glance]:
        """Every host that shows its card (in the region), by name."""
        cards = [card for card in self._folder.cards() if region in {None, card.spec.region}]
        for gone in self._clients.keys() - {card.spec.name for card in cards}:
            self._clients.pop(gone)[1].close()
        if not cards:
            return {}
        with ThreadPoolExecutor(max_workers=min(16, len(cards))) as pool:
            return {card.spec.name: glance for card, glance in zip(cards, pool.map(self._glance, cards), strict=True)}

    def client(self, card: HostCard) -> Client:
        known = self._clients.get(card.spec.name)
        if known is not None and known[0] == card:
            return known[1]
        if known is not None:
            known[1].close()
        client = Client(card.address, self._token, self._timeout_s)
        self._clients[card.spec.name] = (card, client)
        return client

    def _glance(self, card: HostCard) -> Glance:
        try:
            answer = self.client(card).ask("status", {"drain": self._drain})
            status = from_json(AgentStatus, str(answer.get("status")))
        except Refused as error:
            return Glance(card, None, refused=True, note=str(error))
        except (TidegateError, ValueError) as error:
            return Glance(card, None, note=str(error))
        if status.card.incarnation != card.incarnation:
            return Glance(card, None, note="another host answers at its address")
        return Glance(card, status)
