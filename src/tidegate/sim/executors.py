"""A pool of executors over time: asked for, registered, warming up, retiring between batches, lost.

asked for ──startup_s──▶ registered, slow ──warmup_s──▶ registered, at full speed
    └─ no longer wanted: cancelled          └─ no longer wanted: retires when the batches that run now are done
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.domain.errors import InvalidInput
from tidegate.domain.observation import ExecutorSample

_TICK_S = 1e-9


@dataclass(slots=True)
class _Executor:
    id: str
    registers_s: float
    warm_s: float
    waits_for: set[str] | None = None
    """Applications whose running batch must end before it goes; None while it is wanted."""


@dataclass(slots=True)
class Executors:
    """The executors that all applications of a pool share.

    >>> pool = Executors(slots_each=2, startup_s=5, warmup_s=10, warmup_speed=0.5)
    >>> pool.begin(1, now_s=0)
    >>> pool.request(2, now_s=0, in_batch=())
    >>> [pool.power(at_s) for at_s in (0, 5, 15)]  # slots, and how fast the mean slot is
    [(2, 1.0), (4, 0.75), (4, 1.0)]
    """

    slots_each: int
    startup_s: float = 5.0
    warmup_s: float = 10.0
    warmup_speed: float = 0.5
    most: int | None = None
    requested: int = 0
    seconds: float = 0.0
    """Executor-seconds registered so far: what the pool costs."""
    _members: list[_Executor] = field(default_factory=list)
    _made: int = 0

    def __post_init__(self) -> None:
        if self.slots_each < 1:
            raise InvalidInput(f"an executor has at least one slot, not {self.slots_each}")
        if not 0 < self.warmup_speed <= 1:
            raise InvalidInput(f"warm-up speed is a share of full speed, not {self.warmup_speed}")
        if not (self.startup_s >= 0 and self.warmup_s >= 0):
            raise InvalidInput("start-up and warm-up take 0 seconds or more")

    def begin(self, count: int, now_s: float) -> None:
        """The executors that are there, and warm, when the story begins."""
        self.requested = count
        for _ in range(count):
            self._add(registers_s=now_s, warm_s=now_s)

    def request(self, target: int, now_s: float, in_batch: Iterable[str], startup_s: float | None = None) -> None:
        """Have `target` of them: keep those about to retire first, then start new ones; cancel the youngest first."""
        self.requested = target
        wanted = [member for member in self._members if member.waits_for is None]
        for member in self._members:
            if len(wanted) >= target:
                break
            if member.waits_for is not None:
                member.waits_for = None
                wanted.append(member)
        while len(wanted) < target:
            delay_s = self.startup_s if startup_s is None else startup_s
            wanted.append(self._add(now_s + delay_s, now_s + delay_s + self.warmup_s))
        for member in sorted(wanted, key=lambda member: member.registers_s)[target:]:
            if member.registers_s > now_s + _TICK_S:
                self._members.remove(member)
            else:
                member.waits_for = set(in_batch)
        self._release()

    def batch_ended(self, application: str) -> None:
        for member in self._members:
            if member.waits_for is not None:
                member.waits_for.discard(application)
        self._release()

    def lose(self, now_s: float) -> float:
        """The oldest dies and is replaced; returns the share of the slots that went with it."""
        there = self._registered(now_s)
        if not there:
            return 0.0
        self._members.remove(there[0])
        self.request(self.requested, now_s, in_batch=())
        return 1 / len(there)

    def pass_time(self, from_s: float, to_s: float) -> None:
        self.seconds += (to_s - from_s) * len(self._registered(from_s))

    def power(self, now_s: float) -> tuple[int, float]:
        """Slots, and the mean speed of a slot: tasks are spread over warm and cold executors alike."""
        there = self._registered(now_s)
        if not there:
            return 0, 1.0
        speeds = [1.0 if now_s >= member.warm_s - _TICK_S else self.warmup_speed for member in there]
        return len(there) * self.slots_each, sum(speeds) / len(speeds)

    def next_change_s(self, now_s: float) -> float:
        """When the pool's power changes by itself."""
        moments = [moment for member in self._members for moment in (member.registers_s, member.warm_s)]
        return min((moment for moment in moments if moment > now_s + _TICK_S), default=math.inf)

    def settled(self, now_s: float) -> bool:
        return len(self._registered(now_s)) == self.requested == len(self._members)

    def samples(self, now_s: float, busy_slots: float) -> tuple[ExecutorSample, ...]:
        there = self._registered(now_s)
        tasks = math.ceil(busy_slots - 1e-6)
        return tuple(
            ExecutorSample(
                id=member.id,
                host="sim",
                slots=self.slots_each,
                active_tasks=max(0, min(self.slots_each, tasks - place * self.slots_each)),
                since_s=member.registers_s,
            )
            for place, member in enumerate(there)
        )

    def _registered(self, now_s: float) -> list[_Executor]:
        return [member for member in self._members if member.registers_s <= now_s + _TICK_S]

    def _add(self, registers_s: float, warm_s: float) -> _Executor:
        member = _Executor(str(self._made), registers_s, warm_s)
        self._made += 1
        self._members.append(member)
        return member

    def _release(self) -> None:
        self._members = [member for member in self._members if member.waits_for is None or member.waits_for]
