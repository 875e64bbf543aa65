"""Instance scheduling (Me-Stream, section 3.4): assign along the tables, and leave alone what need not move.

Storm's default deals all instances of an application that changes over all slots again, in turn. Here an instance stays
where it is while its slot lives and is not crowded; only those that are new, or whose slot is gone, are seated:
applications by level, each task on the emptiest slot, or beside the task that feeds it where there is a choice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil
from operator import itemgetter

from tidegate.domain import BatchSample, ExecutorPool
from tidegate.planning.migration import Assignment, Instance, MigrationTable, Place, migrate

_OPERATOR = itemgetter(slice(0, 2))  # application and operator of an instance


@dataclass(frozen=True, slots=True)
class Wanted:
    """The operators of an application, in the order of the stages, with the tasks each is to have."""

    application: str
    parallelism: Mapping[str, int]
    level: int = 0

    def instances(self) -> list[Instance]:
        return [
            Instance(self.application, operator, task)
            for operator, tasks in self.parallelism.items()
            for task in range(tasks)
        ]


def places_of(pool: ExecutorPool) -> list[Place]:
    """Every slot of the executors that are registered."""
    return [
        Place(executor.host, f"{executor.id}/{slot}") for executor in pool.executors for slot in range(executor.slots)
    ]


def live_assignment(application: str, batch: BatchSample, pool: ExecutorPool) -> dict[Instance, Place]:
    """Where the tasks of a batch ran, from its task lists; an executor's slots are taken in turn."""
    executors = {executor.id: executor for executor in pool.executors}
    assigned = {}
    for operator in batch.operators:
        turn: Counter[str] = Counter()
        for task, name in enumerate(operator.executors):
            if (executor := executors.get(name)) is None:
                continue
            place = Place(executor.host, f"{name}/{turn[name] % executor.slots}")
            assigned[Instance(application, operator.name, task)] = place
            turn[name] += 1
    return assigned


def plan_migration(
    latest: Mapping[str, BatchSample], after: Mapping[str, Mapping[str, int]], pool: ExecutorPool, time_s: float
) -> MigrationTable:
    """The tables for a new plan: from the latest batch of every application to the parallelisms that change."""
    live: dict[Instance, Place] = {}
    wanted = []
    for name, batch in latest.items():
        changes = after.get(name, {})
        tasks = {stage.name: changes.get(stage.name, stage.parallelism) for stage in batch.operators}
        wanted.append(Wanted(name, tasks, level=int(bool(changes))))
        live |= live_assignment(name, batch, pool)
    return migrate(live, schedule_instances(wanted, places_of(pool), live), time_s)


def deal_in_turn(wanted: Sequence[Wanted], places: Sequence[Place]) -> dict[Instance, Place]:
    """The default: slots interleaved over the hosts, instances dealt to them in turn."""
    by_host: dict[str, list[Place]] = defaultdict(list)
    for place in sorted(places):
        by_host[place.host].append(place)
    longest = max((len(own) for own in by_host.values()), default=0)
    interleaved = [own[turn] for turn in range(longest) for own in by_host.values() if turn < len(own)]
    if not interleaved:
        return {}
    instances = [instance for application in wanted for instance in application.instances()]
    return {instance: interleaved[turn % len(interleaved)] for turn, instance in enumerate(instances)}


def schedule_instances(wanted: Sequence[Wanted], places: Sequence[Place], now: Assignment) -> dict[Instance, Place]:
    """Keep what can stay, free what is gone or crowded, seat the rest, the highest level first.

    Stages of one application follow one another, so that each operator may use every slot; two tasks of one operator on
    a slot would run one after the other, and are put there only where there are more tasks than slots.

    >>> places = [Place("a", "0"), Place("b", "0")]
    >>> first = schedule_instances([Wanted("t", {"split": 1})], places, {})
    >>> again = schedule_instances([Wanted("t", {"split": 2})], places, first)
    >>> again[Instance("t", "split", 0)] == first[Instance("t", "split", 0)], len(set(again.values()))
    (True, 2)
    """
    if not places:
        return {}
    tasks = {(known.application, operator): n for known in wanted for operator, n in known.parallelism.items()}
    alive = set(places)
    assigned = {
        instance: place
        for instance, place in now.items()
        if place in alive and instance[2] < tasks.get(instance[:2], 0)
    }
    if len(set(assigned.values())) < len(places):
        _thin_out(assigned, tasks, len(places))
    there = Counter(map(_OPERATOR, assigned))
    seats = _Seats(places, Counter(assigned.values()))
    for known in sorted(wanted, key=lambda known: -known.level):
        feeder: str | None = None
        for operator, count in known.parallelism.items():
            if there[known.application, operator] < count:
                _seat(known.application, operator, count, feeder, seats, assigned)
            feeder = operator
    return assigned


class _Seats:
    """The slots, the emptiest first."""

    def __init__(self, places: Sequence[Place], held: Counter[Place]) -> None:
        self.count = len(places)
        self._held = held
        self._queue = [(held[place], place) for place in places]
        heapify(self._queue)

    def take(self, full: Container[Place], near: Place | None) -> Place:
        """The emptiest slot that is not full, or `near`, if that holds no more than one above it."""
        passed = []
        while True:
            held, place = heappop(self._queue)
            if held < self._held[place]:  # taken since it was queued: it goes further back
                heappush(self._queue, (self._held[place], place))
                continue
            passed.append((held, place))
            if place not in full:
                break
        for entry in passed:
            heappush(self._queue, entry)
        chosen = near if near is not None and near not in full and self._held[near] <= held + 1 else place
        self._held[chosen] += 1
        return chosen


def _seat(
    application: str, operator: str, tasks: int, feeder: str | None, seats: _Seats, assigned: dict[Instance, Place]
) -> None:
    """Seat the tasks of an operator that have no slot yet, beside the task that feeds them where that is no worse."""
    instances = [Instance(application, operator, task) for task in range(tasks)]
    own = Counter([assigned[instance] for instance in instances if instance in assigned])
    room = ceil(tasks / seats.count)
    full = {place for place, held in own.items() if held >= room}
    for instance in instances:
        if instance in assigned:
            continue
        near = assigned.get(Instance(application, feeder, instance.task)) if feeder is not None else None
        assigned[instance] = place = seats.take(full, near)
        own[place] += 1
        if own[place] >= room:
            full.add(place)


def _thin_out(assigned: dict[Instance, Place], tasks: Mapping[tuple[str, str], int], slots: int) -> None:
    """Where slots stand empty, tasks of one operator need not share one: the surplus gives up its seat."""
    if len(set(zip(map(_OPERATOR, assigned), assigned.values(), strict=True))) == len(assigned):
        return
    crowd: Counter[tuple[tuple[str, str], Place]] = Counter()
    surplus = []
    for instance, place in assigned.items():
        own = instance[:2], place
        crowd[own] += 1
        if crowd[own] > ceil(tasks[own[0]] / slots):
            surplus.append(instance)
    for instance in surplus:
        del assigned[instance]
