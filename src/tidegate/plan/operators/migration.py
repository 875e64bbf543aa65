"""Migration tables (Me-Stream, section 3.3): where every operator instance was, and where the plan puts it.

`N(k, v)` maps the old host to the new host, `P(k, v)` the old slot (Storm's port) to the new slot. Spark places tasks
itself, so the tables guide placement but cannot enforce it. `agreement` tells how far the world followed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Instance(NamedTuple):
    """One task of an operator: its partition, counted from 0. A tuple, because a schedule hashes thousands of them."""

    application: str
    operator: str
    task: int

    def __str__(self) -> str:
        return f"{self.application}.{self.operator}[{self.task}]"


class Place(NamedTuple):
    """One slot: the host, and the port on it. An executor `e` with two slots has the ports `e/0` and `e/1`."""

    host: str
    port: str

    @property
    def executor(self) -> str:
        return self.port.partition("/")[0]


Assignment = Mapping[Instance, Place]


@dataclass(frozen=True, slots=True)
class Move:
    """One line of the tables. Without a place before, the instance starts; without one after, it ends."""

    instance: Instance
    before: Place | None
    after: Place | None

    @property
    def moves(self) -> bool:
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True)
class MigrationTable:
    """Both tables, line by line, as plain data.

    >>> here, there = Place("s1", "6700"), Place("s3", "6702")
    >>> table = migrate({Instance("t1", "split", 0): here}, {Instance("t1", "split", 0): there})
    >>> table.hosts, table.ports, table.counts
    ([('s1', 's3')], [('6700', '6702')], {'stay': 0, 'move': 1, 'start': 0, 'end': 0})
    """

    moves: list[Move] = field(default_factory=list)
    time_s: float = 0.0

    @property
    def hosts(self) -> list[tuple[str | None, str | None]]:
        """N(k, v)."""
        return [(_host(move.before), _host(move.after)) for move in self.moves]

    @property
    def ports(self) -> list[tuple[str | None, str | None]]:
        """P(k, v)."""
        return [(_port(move.before), _port(move.after)) for move in self.moves]

    @property
    def counts(self) -> dict[str, int]:
        started = sum(move.before is None for move in self.moves)
        ended = sum(move.after is None for move in self.moves)
        moved = sum(move.moves for move in self.moves)
        return {"stay": len(self.moves) - started - ended - moved, "move": moved, "start": started, "end": ended}

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self.counts.items() if count)

    def planned(self) -> dict[Instance, Place]:
        """The assignment that the tables lead to."""
        return {move.instance: move.after for move in self.moves if move.after is not None}


def migrate(before: Assignment, after: Assignment, time_s: float = 0.0) -> MigrationTable:
    """Fill the tables from the live assignment and the new plan."""
    instances = sorted({*before, *after})
    return MigrationTable([Move(known, before.get(known), after.get(known)) for known in instances], time_s)


def agreement(table: MigrationTable, seen: Assignment) -> float | None:
    """Share of the planned instances on the executor that the table gave them, or None if none of them was seen.

    >>> one, two = Instance("a", "b", 0), Instance("a", "b", 1)
    >>> table = migrate({}, {one: Place("x", "0"), two: Place("y", "0")})
    >>> agreement(table, {one: Place("x", "0"), two: Place("x", "0")})
    0.5
    """
    planned = table.planned()
    both = [instance for instance in planned if instance in seen]
    agreed = sum(
        (planned[known].host, planned[known].executor) == (seen[known].host, seen[known].executor) for known in both
    )
    return agreed / len(both) if both else None


def _host(place: Place | None) -> str | None:
    return None if place is None else place.host


def _port(place: Place | None) -> str | None:
    return None if place is None else place.port
