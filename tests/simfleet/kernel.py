"""One seeded scheduler for a whole fleet: processes that crash, freeze and wait, and the lives that run in them.

Everything happens in one thread, in an order that the seed alone decides. A process that is inside a call to the world
(a slow disk, an answer that takes its time) stands still as a whole, while all the others go on: the scheduler is run
from within the call. So whatever can happen between two file operations of the fleet's code does happen here.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from tidegate.fleet.ports import Call, Life, Pause

_SLICE_S = 0.5
_MOST_NESTED = 3


class Crashed(BaseException):
    """The process has ended in the middle of what it did. Not an `Exception`: nobody handles his own death."""


class Process:
    """Something that runs, stands still, or is gone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = 0
        self.busy = 0
        self.waiting: list[Callable[[], None]] = []
        """What it would have done while it stood still."""

    @property
    def runs(self) -> bool:
        return self.alive and not self.frozen


class Kernel:
    """Time, and what happens next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.events = 0
        self.after_each: Callable[[], None] = lambda: None
        self.trace: list[str] | None = None
        self._queue: list[tuple[float, int, Process | None, Callable[[], None]]] = []
        self._order = 0
        self._nested = 0

    def say(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now_s:8.3f} {text}")

    def after(self, delay_s: float, what: Callable[[], None], process: Process | None = None) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_s + max(0.0, delay_s), self._order, process, what))

    def run(self, until_s: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen that is due by then."""
        while self._queue and self._queue[0][0] <= until_s:
            due_s, _, process, what = heapq.heappop(self._queue)
            self.now_s = max(self.now_s, due_s)
            if process is not None:
                if not process.alive:
                    continue
                if process.frozen or process.busy:
                    process.waiting.append(what)
                    continue
            self.events += 1
            what()
            self.after_each()
            if stop():
                return
        self.now_s = max(self.now_s, until_s)

    def spend(self, process: Process, seconds: float) -> None:
        """The process is inside a call for so long; raises `Crashed` where it did not live to see its end."""
        if self._nested >= _MOST_NESTED:
            return
        self._nested += 1
        process.busy += 1
        try:
            self.run(self.now_s + seconds)
            while process.alive and process.frozen and self._queue:
                self.run(self._queue[0][0])
        finally:
            process.busy -= 1
            self._nested -= 1
            if not process.busy:
                self._go_on(process)
        if not process.alive:
            raise Crashed(process.name)

    def freeze(self, process: Process) -> None:
        process.frozen += 1

    def thaw(self, process: Process) -> None:
        process.frozen = max(0, process.frozen - 1)
        if not process.frozen and not process.busy:
            self._go_on(process)

    def kill(self, process: Process) -> None:
        process.alive = False
        process.waiting.clear()

    def _go_on(self, process: Process) -> None:
        missed, process.waiting = process.waiting, []
        for what in missed:
            self.after(self.random.uniform(0.0, 0.05), what, process)


class Strand:
    """A life of the fleet's code, driven by the kernel."""

    def __init__(self, kernel: Kernel, process: Process, life: Life, rate: float = 1.0) -> None:
        self._kernel, self._process, self._life, self._rate = kernel, process, life, rate
        self._ended = False
        kernel.after(kernel.random.uniform(0.0, 0.01), lambda: self._resume(None, None), process)

    @property
    def alive(self) -> bool:
        return not self._ended and self._process.alive

    def join(self, limit_s: float) -> bool:
        raise AssertionError("nobody may block in the simulation")

    def _resume(self, value: Any, error: Exception | None) -> None:
        try:
            wanted = self._life.send(value) if error is None else self._life.throw(error)
        except (StopIteration, Crashed):
            self._ended = True
            return
        if isinstance(wanted, Pause):
            self._sleep(wanted, self._kernel.now_s + wanted.seconds / self._rate)
        else:
            self._kernel.after(self._kernel.random.uniform(0.0, 0.2), lambda: self._call(wanted), self._process)

    def _sleep(self, pause: Pause, until_s: float) -> None:
        left_s = until_s - self._kernel.now_s
        if left_s <= 1e-9 or pause.until.is_set():
            self._resume(None, None)
            return
        self._kernel.after(min(left_s, _SLICE_S), lambda: self._sleep(pause, until_s), self._process)

    def _call(self, call: Call) -> None:
        value: Any = None
        error: Exception | None = None
        try:
            value = call.function()
        except Crashed:
            self._ended = True
            return
        except Exception as raised:
            error = raised
        self._kernel.after(self._kernel.random.uniform(0.0, 1.0), lambda: self._resume(value, error), self._process)


class Strands:
    """The port that lives are begun by."""

    def __init__(self, kernel: Kernel, process: Process, rate: float) -> None:
        self._kernel, self._process, self._rate = kernel, process, rate

    def begin(self, life: Life, name: str) -> Strand:
        return Strand(self._kernel, self._process, life, self._rate)
