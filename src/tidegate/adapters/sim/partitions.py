"""Where the state partitions of an application live, and which of them must be loaded at the next batch.

A task with state runs where the state is, so a new executor gets none of it by itself. A partition that moves, because
of a request or because its executor leaves, is loaded again at its new place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class Partitions:
    """The partitions of the stateful operators of one application, which move together.

    >>> state = Partitions(4)
    >>> state.settle(["0"])
    >>> state.move(3, "1")
    >>> state.where, state.take_reloads()
    (('0', '0', '0', '1'), {3: True})
    >>> state.leave("0", there=["1"])
    >>> state.where, state.take_reloads()
    (('1', '1', '1', '1'), {0: False, 1: False, 2: False})
    """

    def __init__(self, count: int) -> None:
        self._where: list[str | None] = [None] * count
        self._reload: set[int] = set()
        self._known: set[str] = set()
        self._begun = False
        self._told: tuple[str, ...] | None = None
        self._by_executor: tuple[tuple[str, ...], dict[str, tuple[int, ...]]] = ((), {})

    @property
    def count(self) -> int:
        return len(self._where)

    @property
    def where(self) -> tuple[str, ...]:
        """The executor of each partition; empty before there was any executor."""
        if self._told is None:
            placed = [executor for executor in self._where if executor is not None]
            self._told = tuple(placed) if len(placed) == len(self._where) else ()
        return self._told

    def by_executor(self) -> dict[str, tuple[int, ...]]:
        """The partitions of each executor that holds any."""
        known, found = self._by_executor
        if known is not self.where:
            found = {}
            for number, executor in enumerate(self.where):
                found[executor] = (*found.get(executor, ()), number)
            self._by_executor = self.where, found
        return found

    def settle(self, there: Sequence[str]) -> None:
        """Assign partitions without an executor: in turn at the start of a run, later to the emptiest."""
        if self.where or not there:
            return
        self._told = None
        if not self._begun:
            self._begun = True
            self._where = [there[number % len(there)] for number in range(len(self._where))]
            self._known.update(there[: len(self._where)])
            return
        held = Counter(dict.fromkeys(there, 0))
        held.update(executor for executor in self._where if executor is not None)
        for number, executor in enumerate(self._where):
            if executor is None:
                emptiest = min(there, key=lambda one: held[one])
                self._where[number] = emptiest
                held[emptiest] += 1
                self._reload.add(number)

    def move(self, partition: int, executor: str) -> None:
        """From the next batch on the partition lives there."""
        if self._where[partition] != executor:
            self._where[partition] = executor
            self._reload.add(partition)
            self._told = None

    def leave(self, executor: str, there: Sequence[str]) -> None:
        """The executor is gone. Its partitions go to the remaining ones."""
        self._known.discard(executor)
        if executor in self._where:
            self._where = [None if one == executor else one for one in self._where]
            self._told = None
            self.settle(there)

    def take_reloads(self) -> dict[int, bool]:
        """Partitions to load now, and whether each is on an executor that has never held any of this state."""
        if not self._reload:
            return {}
        found = {number: self.where[number] not in self._known for number in sorted(self._reload)}
        self._known.update(self.where)
        self._reload.clear()
        return found
