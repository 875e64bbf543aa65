"""Simulated time: sleeping lets the plant run."""

from __future__ import annotations

from typing import Protocol


class Advancing(Protocol):
    """A world whose time can be advanced."""

    @property
    def now_s(self) -> float: ...

    def advance_to(self, time_s: float) -> None: ...


class SimClock:
    """The controller's clock in a simulated world. `until_s` ends the simulation."""

    def __init__(self, world: Advancing, until_s: float | None = None) -> None:
        self._world = world
        self._stopped = False
        self.until_s = until_s

    def now_s(self) -> float:
        return self._world.now_s

    def monotonic_s(self) -> float:
        return self._world.now_s

    def sleep_until(self, time_s: float) -> bool:
        if self._stopped:
            return False
        if self.until_s is not None and time_s > self.until_s:
            self._world.advance_to(self.until_s)
            return False
        self._world.advance_to(time_s)
        return not self._stopped

    def stop(self) -> None:
        self._stopped = True
