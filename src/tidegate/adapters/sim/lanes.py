"""Work that shares a pace: it ends in the order of its virtual finishing times, however the pace changes.

All parts of a lane are served at the same pace φ(t) per requested slot. The lane's clock is `∫ φ dt`. A part with work
W that requests n slots ends when the clock has advanced by `W / n`. A new pace for the whole lane changes one number,
not the plan of every part (processor sharing by virtual time, as in weighted fair queueing).
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Owner = TypeVar("Owner")
_order = count()


class Part(Generic[Owner]):
    """A piece of work that requests a number of slots until it is done."""

    __slots__ = ("_cpu_s", "_from_cpu", "_from_held", "_held_s", "ask", "ends", "lane", "owner", "place", "work_s")

    def __init__(self, owner: Owner, work_s: float, ask: float) -> None:
        self.owner, self.work_s, self.ask = owner, work_s, ask
        self.place = ""
        """The executor that it is bound to, if any."""
        self.ends = math.inf
        self.lane: Lane[Owner] | None = None
        self._held_s = self._cpu_s = self._from_held = self._from_cpu = 0.0

    @property
    def left_s(self) -> float:
        """Remaining work."""
        if self.lane is None:
            return 0.0
        return max(0.0, (self.ends - self.lane.clock) * self.ask)

    @property
    def held_s(self) -> float:
        """Slot-seconds held so far."""
        return self._held_s + ((self.lane.held - self._from_held) * self.ask if self.lane else 0.0)

    @property
    def cpu_s(self) -> float:
        """CPU-seconds used so far."""
        return self._cpu_s + ((self.lane.cpu - self._from_cpu) * self.ask if self.lane else 0.0)

    def enter(self, lane: Lane[Owner], left_s: float) -> None:
        self.lane = lane
        self.ends = lane.clock + left_s / self.ask
        self._from_held, self._from_cpu = lane.held, lane.cpu
        lane.asked += self.ask
        lane.parts += 1
        heappush(lane.queue, (self.ends, next(_order), self))

    def leave(self) -> None:
        """Leave the lane. Its entry in the queue remains and is skipped, because `ends` no longer matches it."""
        lane = self.lane
        if lane is None:
            return
        self._held_s += (lane.held - self._from_held) * self.ask
        self._cpu_s += (lane.cpu - self._from_cpu) * self.ask
        self.lane, self.ends = None, math.inf
        lane.parts -= 1
        lane.asked = lane.asked - self.ask if lane.parts else 0.0


class Lane(Generic[Owner]):
    """Parts with one pace.

    >>> lane: Lane[str] = Lane(cpu_share=1.0)
    >>> for name, work_s, ask in (("long", 8.0, 2.0), ("short", 1.0, 1.0)):
    ...     Part(name, work_s, ask).enter(lane, work_s)
    >>> lane.pace = 0.5
    >>> lane.next_end_s(now_s=10.0)
    12.0
    >>> lane.pass_time(2.0)
    >>> [part.owner for part in lane.take_next()], lane.next_end_s(now_s=12.0)
    (['short'], 18.0)
    """

    __slots__ = ("asked", "clock", "cpu", "cpu_share", "cpu_use", "held", "pace", "parts", "queue", "share")

    def __init__(self, cpu_share: float) -> None:
        self.cpu_share = cpu_share
        self.asked = 0.0
        self.parts = 0
        self.pace = self.share = self.cpu_use = 0.0
        """Work done, slots held and CPUs used, per requested slot."""
        self.clock = self.held = self.cpu = 0.0
        self.queue: list[tuple[float, int, Part[Owner]]] = []

    def next_end_s(self, now_s: float) -> float:
        """When its first part is done, if the pace stays the same."""
        queue = self.queue
        while queue and (queue[0][2].lane is not self or queue[0][2].ends != queue[0][0]):
            heappop(queue)
        if not queue or self.pace <= 0:
            return math.inf
        left = queue[0][0] - self.clock
        return now_s + left / self.pace if left > 0 else now_s

    def pass_time(self, seconds: float) -> None:
        self.clock += self.pace * seconds
        self.held += self.share * seconds
        self.cpu += self.cpu_use * seconds

    def take_next(self) -> list[Part[Owner]]:
        """The parts that end now. The clock is advanced to the next end, to avoid rounding errors."""
        if self.queue and self.queue[0][0] > self.clock:
            self.clock = self.queue[0][0]
        found: list[Part[Owner]] = []
        queue = self.queue
        while queue and queue[0][0] <= self.clock:
            ends, _, part = heappop(queue)
            if part.lane is self and part.ends == ends:
                part.leave()
                found.append(part)
        return found
