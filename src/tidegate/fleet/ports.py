"""The interfaces between the fleet and its environment: threads, messages, time. Files have their own module.

Long-running code is written as a *life*: a generator that yields what it waits for. In production a thread drives it.
The deterministic simulation drives the same generators from one seeded scheduler.
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
    """Two kinds of time. Rules depend only on the steady one."""

    def steady_s(self) -> float:
        """Never jumps, and includes the time that the machine was suspended."""
        ...

    def wall_s(self) -> float:
        """For display. It may be set at any time."""
        ...

    def forward_s(self) -> float:
        """Wall-clock time that never goes back: its value at the start plus the steady time since."""
        ...


class RealClock:
    """The machine's clock."""

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
    """Wait this long, or until the event is set."""

    seconds: float
    until: threading.Event


@dataclass(frozen=True, slots=True)
class Call:
    """A call that may take long. Its result or exception is passed back to the generator."""

    function: Callable[[], Any]


Life = Generator[Pause | Call, Any, None]


class Strand(Protocol):
    """A life that has been started."""

    @property
    def alive(self) -> bool: ...

    def join(self, limit_s: float) -> bool:
        """Wait for its end. False if it does not end within the limit."""
        ...


class Strands(Protocol):
    def begin(self, life: Life, name: str) -> Strand: ...


def live(life: Life) -> None:
    """Run a life to its end in this thread."""
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
    """Runs every life in its own thread."""

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
"""`(kind, fields) → fields`. Exceptions are reported to the caller."""


class Listener(Protocol):
    """An address that accepts requests."""

    @property
    def address(self) -> tuple[str, int]: ...

    def close(self) -> None: ...


class Peer(Protocol):
    """A remote process that answers requests."""

    def ask(self, kind: str, fields: Body | None = None) -> Body:
        """The fields of the response. Raises a `TidegateError` if there is none, whatever the reason."""
        ...

    def close(self) -> None: ...


class Wire(Protocol):
    """Carries requests and responses between processes."""

    def listen(self, answer: Answer) -> Listener: ...

    def peer(self, address: tuple[str, int]) -> Peer: ...

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterable[B]:
        """The function applied to every item, in order; concurrently if possible."""
        ...


def at_once(function: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """For wires with slow requests: one that hangs does not delay the others."""
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(items))) as pool:
        return list(pool.map(function, items))


class Watchdog(Protocol):
    """Ends a host that does not end by itself."""

    def allow_until(self, deadline_s: float | None) -> None:
        """The host may live until then on the steady clock; None: without limit, because it runs nothing."""
        ...

    def let_go(self) -> None:
        """The host ends normally: nothing needs to be killed."""
        ...


def _new_id() -> str:
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class Ports:
    """What an agent needs from its environment."""

    wire: Wire
    watchdog: Watchdog
    strands: Strands = field(default_factory=Threads)
    new_id: Callable[[], str] = _new_id
