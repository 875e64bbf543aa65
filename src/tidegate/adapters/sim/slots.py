"""The executors' slots and the host's CPUs: which running tasks make progress, and how fast.

Tasks of stateless stages run wherever there is room. Tasks of a stateful stage run where their state is. On every
executor, classes are served by their weights; without weights all tasks are served equally. If tasks and cold executors
need more CPUs than the host has, all CPU work takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from tidegate.adapters.sim.contention import crowding, fill, spread
from tidegate.adapters.sim.lanes import Lane, Part

Owner = TypeVar("Owner")
ANYWHERE = ""
"""The place of a part whose tasks may run on any executor."""
_FEW_LANES, _MOST_KNOWN = 4, 256
Key = tuple[str, str, float]
"""Class, place, and the share of a task's time that needs a CPU."""


class _Division(NamedTuple):
    busy: float
    busy_at: dict[str, float]
    cpus_used: float
    crowded: float
    lanes: tuple[tuple[float, float, float], ...]


@dataclass(slots=True)
class Slots(Generic[Owner]):
    """Divides the slots of a pool among the parts of running stages.

    >>> slots: Slots[str] = Slots(slots_each=2)
    >>> pinned = slots.start("state", ("", "0", 1.0), work_s=4.0, ask=4.0)
    >>> free = slots.start("map", ("", ANYWHERE, 1.0), work_s=4.0, ask=2.0)
    >>> slots.divide({"0": 1.0, "1": 1.0}, cold=0, weights={})
    >>> slots.busy, [lane.next_end_s(0.0) for lane in slots.lanes.values()]  # both get two slots: state stays put
    (4.0, [2.0, 2.0])
    """

    slots_each: int
    host_cpus: float | None = None
    cold_cpus: float = 0.0
    lanes: dict[Key, Lane[Owner]] = field(default_factory=dict)
    changed: bool = True
    """Whether a request for slots has started or ended since they were divided."""
    busy: float = 0.0
    busy_at: dict[str, float] = field(default_factory=dict)
    """Busy slots, in total and by executor."""
    cpus_used: float = 0.0
    crowded: float = 1.0
    """How many times longer CPU work takes than with enough CPUs."""
    _known: dict[object, _Division] = field(default_factory=dict)
    """Cached divisions among few lanes. They recur with every batch of a query that runs alone."""

    def start(self, owner: Owner, key: Key, work_s: float, ask: float) -> Part[Owner]:
        part = Part(owner, work_s, ask)
        self._enter(part, key, work_s)
        return part

    def move(self, part: Part[Owner], key: Key, more_s: float = 0.0) -> None:
        """Continue it elsewhere, with `more_s` slot-seconds to repeat."""
        left_s = part.left_s + more_s
        part.work_s += more_s
        part.leave()
        self._enter(part, key, left_s)

    def divide(self, speeds: Mapping[str, float], cold: int, weights: Mapping[str, float]) -> None:
        """Set the pace of every lane for these executors, until something changes."""
        self.changed = False
        self.lanes = {key: lane for key, lane in self.lanes.items() if lane.parts}
        if len(self.lanes) > _FEW_LANES:
            self._divide(speeds, cold, weights)
            return
        among = tuple([(key, lane.asked) for key, lane in self.lanes.items()])
        known = self._known.get(among)
        if known is None:
            self._divide(speeds, cold, weights)
            if len(self._known) < _MOST_KNOWN:
                paces = tuple([(lane.share, lane.pace, lane.cpu_use) for lane in self.lanes.values()])
                self._known[among] = _Division(self.busy, self.busy_at, self.cpus_used, self.crowded, paces)
            return
        self.busy, self.busy_at, self.cpus_used, self.crowded, paces = known
        for lane, (share, pace, cpu_use) in zip(self.lanes.values(), paces, strict=True):
            lane.share, lane.pace, lane.cpu_use = share, pace, cpu_use

    def forget(self) -> None:
        """The executors or the weights have changed: divide again."""
        self._known.clear()
        self.changed = True

    def _divide(self, speeds: Mapping[str, float], cold: int, weights: Mapping[str, float]) -> None:
        if not speeds:
            for lane in self.lanes.values():
                lane.pace = lane.share = 0.0
            self.busy, self.busy_at = 0.0, {}
        elif len(speeds) == 1 or all(place == ANYWHERE for _, place, _ in self.lanes):
            self._divide_whole(speeds, weights)
        else:
            self._divide_by_executor(speeds, weights)
        self._share_cpus(cold)

    def _enter(self, part: Part[Owner], key: Key, left_s: float) -> None:
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(key[2])
        part.place = key[1]
        part.enter(lane, left_s)
        self.changed = True

    def _divide_whole(self, speeds: Mapping[str, float], weights: Mapping[str, float]) -> None:
        """Every part may use every slot. A slow executor slows all of them equally."""
        slots, speed = len(speeds) * self.slots_each, sum(speeds.values()) / len(speeds)
        asked: dict[str, float] = {}
        for (group, place, _), lane in self.lanes.items():
            if place in speeds or place == ANYWHERE:
                asked[group] = asked.get(group, 0.0) + lane.asked
        granted = fill(slots, asked, weights)
        for (group, place, _), lane in self.lanes.items():
            there = place in speeds or place == ANYWHERE
            lane.share = granted[group] / asked[group] if there else 0.0
            lane.pace = lane.share * speed
        self.busy = sum(granted.values())
        tasks, self.busy_at = self.busy, {}
        for executor in speeds:
            self.busy_at[executor] = min(float(self.slots_each), tasks)
            tasks -= self.busy_at[executor]

    def _divide_by_executor(self, speeds: Mapping[str, float], weights: Mapping[str, float]) -> None:
        """Pinned parts use their executor. The others go where the least work is."""
        pinned: dict[str, dict[str, float]] = {executor: {} for executor in speeds}
        free: dict[str, float] = {}
        for (group, place, _), lane in self.lanes.items():
            lane.share = lane.pace = 0.0
            if place == ANYWHERE:
                free[group] = free.get(group, 0.0) + lane.asked
            elif place in pinned:
                pinned[place][group] = pinned[place].get(group, 0.0) + lane.asked
        wandering = sum(free.values())
        placed = spread(wandering, {executor: sum(asked.values()) for executor, asked in pinned.items()})
        self.busy, self.busy_at = 0.0, {}
        for executor, speed in speeds.items():
            here = placed[executor] / wandering if wandering else 0.0
            asked = dict(pinned[executor])
            for group, amount in free.items():
                asked[group] = asked.get(group, 0.0) + amount * here
            granted = fill(self.slots_each, asked, weights)
            for (group, place, _), lane in self.lanes.items():
                if place in (executor, ANYWHERE) and asked[group] > 0:
                    share = granted[group] / asked[group] * (here if place == ANYWHERE else 1.0)
                    lane.share += share
                    lane.pace += share * speed
            self.busy_at[executor] = sum(granted.values())
            self.busy += self.busy_at[executor]

    def _share_cpus(self, cold: int) -> None:
        self.crowded = 1.0
        if self.host_cpus is not None:
            wanted = [(lane.asked * lane.share, lane.cpu_share) for lane in self.lanes.values()]
            self.crowded = crowding(self.host_cpus, [*wanted, (cold * self.cold_cpus, 1.0)])
        self.cpus_used = cold * self.cold_cpus / self.crowded
        for lane in self.lanes.values():
            longer = (1 - lane.cpu_share) + lane.cpu_share * self.crowded
            lane.pace /= longer
            lane.cpu_use = lane.share * lane.cpu_share / longer
            self.cpus_used += lane.asked * lane.cpu_use
