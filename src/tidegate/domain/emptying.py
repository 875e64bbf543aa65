"""How long a retiring executor waits for its state to be moved. All cluster adapters share this rule."""

from __future__ import annotations

from dataclasses import dataclass

_ROUNDS_TO_BEGIN = 1
"""The controller sees the retiring executors one round after its request. Without state moves, this is the only
delay."""
_ROUNDS_TO_GO_ON = 10
"""Maximum rounds without a move after the first one. Moves come in waves, a batch or two apart."""


@dataclass(slots=True)
class Emptying:
    """Counts the rounds of `converge` in which no state left the retiring executors.

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
    """Partitions left in the previous round."""

    def wait(self, partitions: int, moving: bool) -> bool:
        """Return whether the executors should stay another round with this many state partitions."""
        if moving or (self.left is not None and partitions < self.left):
            self.begun, self.rounds = True, 0
        else:
            self.rounds += 1
        self.left = partitions
        return partitions > 0 and self.rounds <= (_ROUNDS_TO_GO_ON if self.begun else _ROUNDS_TO_BEGIN)
