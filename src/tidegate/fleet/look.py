"""Asks the agents of all hosts at the same time, and collects their answers."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain import TidegateError
from tidegate.domain.codec import from_json
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Peer, Wire
from tidegate.fleet.protocol import Refused
from tidegate.fleet.vocabulary import AgentStatus, HostCard, Phase, Tenancy

_LONGEST_NOTE = 200


@dataclass(frozen=True, slots=True)
class Glance:
    """The result of asking one host."""

    card: HostCard
    status: AgentStatus | None
    refused: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What the hosts say about their applications, by application."""

    tenants: dict[str, tuple[str, Tenancy]]
    """The host that has it, and how it is there. An application that still waits is not there yet."""
    held: set[str]
    """Applications that run under a lease."""


def occupancy(glances: dict[str, Glance]) -> Occupancy:
    """Computed once per look, because thousands of applications take a while."""
    tenants: dict[str, tuple[str, Tenancy]] = {}
    held: set[str] = set()
    waiting, running = Phase.WAITING, Phase.RUNNING
    for host, glance in glances.items():
        for tenancy in glance.status.tenancies if glance.status is not None else ():
            phase, name = tenancy.phase, tenancy.spec.name
            if phase is running and tenancy.epoch is not None:
                held.add(name)
            if phase is not waiting:
                tenants[name] = (host, tenancy)
    return Occupancy(tenants, held)


class Lookout:
    """Keeps a connection to every agent. All are asked at the same time, so a hanging one does not delay the others."""

    def __init__(self, folder: FleetFolder, wire: Wire) -> None:
        self._folder = folder
        self._wire = wire
        self._clients: dict[str, tuple[HostCard, Peer]] = {}

    def look(self, region: str | None = None) -> dict[str, Glance]:
        """The answers of all hosts with a card (in the region), by name."""
        cards = [card for card in self._folder.cards() if region in {None, card.spec.region}]
        for gone in self._clients.keys() - {card.spec.name for card in cards}:
            self._clients.pop(gone)[1].close()
        if not cards:
            return {}
        glances = self._wire.each(self._glance, cards)
        return {card.spec.name: glance for card, glance in zip(cards, glances, strict=True)}

    def client(self, card: HostCard) -> Peer:
        known = self._clients.get(card.spec.name)
        if known is not None and known[0] == card:
            return known[1]
        if known is not None:
            known[1].close()
        client = self._wire.peer(card.address)
        self._clients[card.spec.name] = (card, client)
        return client

    def _glance(self, card: HostCard) -> Glance:
        try:
            answer = self.client(card).ask("status")
            status = from_json(AgentStatus, str(answer.get("status")))
        except Refused as error:
            return Glance(card, None, refused=True, note=str(error))
        except Exception as error:  # a peer must not be able to end the whole look
            text = str(error) if isinstance(error, TidegateError) else f"{type(error).__name__}: {error}"
            return Glance(card, None, note=next(iter(text.splitlines()), "")[:_LONGEST_NOTE])
        if status.card.incarnation != card.incarnation:
            return Glance(card, None, note="another host answers at its address")
        return Glance(card, status)
