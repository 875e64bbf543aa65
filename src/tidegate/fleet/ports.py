"""The doors between the fleet and the world around it: threads, messages, time. Files have their own page.

What runs for long is written as a *life*: a generator that yields what it waits for. In production a thread drives it;
the deterministic simulation drives the very same generators from one seeded scheduler.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tidegate.fleet.protocol import Body
from tidegate.fleet.steady import steady_s

A = TypeVar("A")
B = TypeVar("B")


class Clock(Protocol):
    """Two kinds of time. Rules depend on the steady one alone."""

    def steady_s(self) -> float:
        """Never jumps, and counts the time that the machine was asleep."""
        ...

    def wall_s(self) -> float:
        """For people; somebody may set it."""
        ...

    def forward_s(self) -> float:
        """Wall time that nobody can set back: what it was when this began, and the steady time since."""
        ...


class RealClock:
    """The machine's."""

    def __init__(self) -> None:
        self._began_s = time.time() - steady_s()

    def steady_s(self) -> float:
        return steady_s()

    def wall_s(self) -> float:
        return time.time()

    def forward_s(self) -> float:
        return self._began_s + steady_s()


REAL_CLOCK = RealClock()


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long, or until the event is set."""

    seconds: float
    until: threading.Event


@dataclass(frozen=True, slots=True)
class Call:
    """Something that may take long; its result, or what it raises, comes back to where it was asked for."""

    function: Callable[[], Any]


Life = Generator[Pause | Call, Any, None]


class Strand(Protocol):
    """A life that has begun."""

    @property
    def alive(self) -> bool: ...

    def join(self, limit_s: float) -> bool:
        """Wait for its end; False where it has not come within the limit."""
        ...


class Strands(Protocol):
    def begin(self, life: Life, name: str) -> Strand: ...


def live(life: Life) -> None:
    """Drive a life to its end, here and now."""
    try:
        wanted = next(life)
        while True:
            if isinstance(wanted, Pause):
                wanted.until.wait(max(0.0, wanted.seconds))
                wanted = next(life)
                continue
            try:
                result = wanted.function()
            except Exception as error:
                wanted = life.throw(error)
            else:
                wanted = life.send(result)
    except StopIteration:
        return


class Threads:
    """A thread for every life."""

    def begin(self, life: Life, name: str) -> Strand:
        return _Thread(life, name)


class _Thread:
    def __init__(self, life: Life, name: str) -> None:
        self._thread = threading.Thread(target=live, args=(life,), name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, limit_s: float) -> bool:
        self._thread.join(limit_s)
        return not self._thread.is_alive()


Answer = Callable[[str, Body], Body]
"""`(kind, fields) → fields`; what it raises is told to the asker."""


class Listener(Protocol):
    """Somewhere that questions can be sent to."""

    @property
    def address(self) -> tuple[str, int]: ...

    def close(self) -> None: ...


class Peer(Protocol):
    """Somebody who can be asked."""

    def ask(self, kind: str, fields: Body | None = None) -> Body:
        """The answer's fields. Raises a `TidegateError` where there is none, whatever the reason."""
        ...

    def close(self) -> None: ...


class Wire(Protocol):
    """How questions and answers get from one process to another."""

    def listen(self, answer: Answer) -> Listener: ...

    def peer(self, address: tuple[str, int]) -> Peer: ...

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterable[B]:
        """The function of every item, in their order; all at the same time where that can be."""
        ...


def at_once(function: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """For wires on which asking takes time: one that hangs delays nobody else."""
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(items))) as pool:
        return list(pool.map(function, items))


class Watchdog(Protocol):
    """What ends a host that does not end by itself."""

    def allow_until(self, deadline_s: float | None) -> None:
        """The host may live until then on the steady clock; None: as long as it likes (it runs nothing)."""
        ...

    def let_go(self) -> None:
        """The host ends in good order: nothing is to be killed."""
        ...


def _new_id() -> str:
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class Ports:
    """What an agent needs of the world around it."""

    wire: Wire
    watchdog: Watchdog
    strands: Strands = field(default_factory=Threads)
    new_id: Callable[[], str] = _new_id
