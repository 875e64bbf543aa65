"""A pool of executors over time: requested, registered, warming up, retiring between batches, lost.

requested ──startup_s──▶ registered, slow ──warmup_s──▶ registered, at full speed
    └─ no longer wanted: cancelled          └─ no longer wanted: retires when the running batches are done,
                                               and when its state has moved away or is not being moved

Start-up and warm-up have their own clock, which slows down when cold executors wait for CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.domain.errors import InvalidInput
from tidegate.domain.observation import ExecutorSample

_TICK_S = 1e-9
_STATE = "its state"
"""Stands for an executor's state among the things it waits for."""


@dataclass(slots=True)
class _Executor:
    id: str
    registers: float
    warm: float
    """On the clock of cold executors."""
    since_s: float | None = None
    """When it registered."""
    waits_for: set[str] | None = None
    """What must end before it leaves: running batches of applications, its state. None while it is wanted."""


@dataclass(slots=True)
class Executors:
    """The executors shared by all applications of a pool.

    >>> pool = Executors(slots_each=2, startup_s=5.0, warmup_s=10.0, warmup_speed=0.5)
    >>> pool.begin(1, now_s=0.0)
    >>> pool.request(2, in_batch=())
    >>> pool.speeds, pool.cold, pool.next_change_s(0.0)
    ({'0': 1.0}, 1, 5.0)
    >>> pool.pass_time(0.0, 5.0)
    >>> pool.speeds, pool.next_change_s(5.0, pace=0.5)  # its warm-up takes longer while CPUs are short
    ({'0': 1.0, '1': 0.5}, 25.0)
    """

    slots_each: int
    startup_s: float = 5.0
    warmup_s: float = 10.0
    warmup_speed: float = 0.5
    most: int | None = None
    requested: int = 0
    seconds: float = 0.0
    """Executor-seconds registered so far: the cost of the pool."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """The speed of each registered executor, oldest first."""
    slots: int = 0
    cold: int = 0
    """Executors that are starting or warming up."""
    version: int = 0
    """Increases when executors come, go or get warm."""
    departed: list[str] = field(default_factory=list)
    """Executors that have left and were not reported yet."""
    _members: list[_Executor] = field(default_factory=list)
    _made: int = 0
    _clock: float = 0.0
    _now_s: float = 0.0
    _next: float = math.inf

    def __post_init__(self) -> None:
        if self.slots_each < 1:
            raise InvalidInput(f"an executor must have at least one slot, not {self.slots_each}")
        if not 0 < self.warmup_speed <= 1:
            raise InvalidInput(f"warm-up speed must be a share of full speed, not {self.warmup_speed}")
        if not (self.startup_s >= 0 and self.warmup_s >= 0):
            raise InvalidInput("start-up and warm-up must take at least 0 seconds")

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.speeds)

    def begin(self, count: int, now_s: float) -> None:
        """The initial executors, all of them warm."""
        self.requested, self._clock, self._now_s = count, now_s, now_s
        for _ in range(count):
            self._add(registers=now_s, warm=now_s)
        self._look()

    def request(
        self, target: int, in_batch: Iterable[str], startup_s: float | None = None, holding: Collection[str] = ()
    ) -> None:
        """Change the pool to `target` executors: keep retiring ones first, then start new ones; cancel the youngest.

        Executors that are `holding` state wait until they are released.
        """
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
            wanted.append(self._add(self._clock + delay_s, self._clock + delay_s + self.warmup_s))
        for member in sorted(wanted, key=lambda member: member.registers)[target:]:
            if member.registers > self._clock + _TICK_S:
                self._members.remove(member)
            else:
                member.waits_for = {*in_batch, _STATE} if member.id in holding else set(in_batch)
        self._release()

    @property
    def emptying(self) -> tuple[str, ...]:
        """Executors that should leave and still wait for their state to be moved."""
        return tuple(member.id for member in self._members if member.waits_for and _STATE in member.waits_for)

    def let_go(self, executor: str) -> None:
        """Its state has moved away, or is not being moved."""
        for member in self._members:
            if member.id == executor and member.waits_for is not None:
                member.waits_for.discard(_STATE)
        self._release()

    def batch_ended(self, application: str) -> None:
        retiring = [member for member in self._members if member.waits_for is not None]
        for member in retiring:
            if member.waits_for is not None:
                member.waits_for.discard(application)
        if retiring:
            self._release()

    def lose(self) -> str | None:
        """The oldest executor dies and is replaced. Returns its name."""
        if not self.speeds:
            return None
        lost = next(member for member in self._members if member.id in self.speeds)
        self._members.remove(lost)
        self.departed.append(lost.id)
        self.request(self.requested, in_batch=())
        return lost.id

    def take_departed(self) -> list[str]:
        """Executors that have left since the last call."""
        gone, self.departed = self.departed, []
        return gone

    def pass_time(self, from_s: float, to_s: float, pace: float = 1.0) -> None:
        self.seconds += (to_s - from_s) * len(self.speeds)
        # without a shortage this clock equals the world's, to the last digit
        self._clock = to_s if pace == 1.0 and self._clock == from_s else self._clock + (to_s - from_s) * pace
        self._now_s = to_s
        if self._next <= self._clock + _TICK_S:
            self._look()

    def next_change_s(self, now_s: float, pace: float = 1.0) -> float:
        """When an executor registers or gets warm, at this pace of the cold ones."""
        if self._next == math.inf:
            return math.inf
        return self._next if pace == 1.0 and self._clock == now_s else now_s + (self._next - self._clock) / pace

    @property
    def settled(self) -> bool:
        return len(self.speeds) == self.requested == len(self._members)

    def samples(self, busy_at: Mapping[str, float]) -> tuple[ExecutorSample, ...]:
        return tuple(
            ExecutorSample(
                id=member.id,
                host="sim",
                slots=self.slots_each,
                active_tasks=min(self.slots_each, math.ceil(busy_at.get(member.id, 0.0) - 1e-6)),
                since_s=member.since_s,
                retiring=member.waits_for is not None,
            )
            for member in self._members
            if member.since_s is not None and member.id in self.speeds
        )

    def _add(self, registers: float, warm: float) -> _Executor:
        member = _Executor(str(self._made), registers, warm)
        self._made += 1
        self._members.append(member)
        return member

    def _release(self) -> None:
        gone = [member for member in self._members if member.waits_for is not None and not member.waits_for]
        for member in gone:
            self._members.remove(member)
            self.departed.append(member.id)
        self._look()

    def _look(self) -> None:
        """Update the registered executors, their speeds, and the next change."""
        now = self._clock + _TICK_S
        for member in self._members:
            if member.since_s is None and member.registers <= now:
                member.since_s = round(self._now_s, 4)
        self.speeds = {
            member.id: 1.0 if member.warm <= now else self.warmup_speed
            for member in self._members
            if member.registers <= now
        }
        self.slots = len(self.speeds) * self.slots_each
        moments = [moment for member in self._members for moment in (member.registers, member.warm) if moment > now]
        self._next = min(moments, default=math.inf)
        self.cold = sum(member.warm > now for member in self._members)
        self.version += 1
