"""How long an executor that is to go waits for its state to be moved: the same rule in every world."""

from __future__ import annotations

from dataclasses import dataclass

_ROUNDS_TO_BEGIN = 1
"""A controller sees who is to go in the round after it asked; one that moves no state loses no more than this."""
_ROUNDS_TO_GO_ON = 10
"""Rounds without a move after the first: moves come in waves, a batch or two apart."""


@dataclass(slots=True)
class Emptying:
    """Counts the rounds of `converge` in which nothing left the executors that are to go.

    >>> emptying = Emptying()
    >>> [emptying.wait(4, moving=False) for _ in range(2)]
    [True, False]
    >>> emptying = Emptying()
    >>> [emptying.wait(4, True), emptying.wait(3, False), emptying.wait(2, False), emptying.wait(0, False)]
    [True, True, True, False]
    """

    rounds: int = 0
    begun: bool = False
    left: int | None = None
    """Partitions that were there in the last round."""

    def wait(self, partitions: int, moving: bool) -> bool:
        """Should they stay for another round, with this many state partitions on them?"""
        if moving or (self.left is not None and partitions < self.left):
            self.begun, self.rounds = True, 0
        else:
            self.rounds += 1
        self.left = partitions
        return partitions > 0 and self.rounds <= (_ROUNDS_TO_GO_ON if self.begun else _ROUNDS_TO_BEGIN)
