"""Instance scheduling (Me-Stream, section 3.4): assign along the tables, and move only what must move.

When an application changes, Storm's default distributes all its instances over all slots again, round-robin. Here an
instance stays while its slot exists and is not crowded. Only instances that are new or have lost their slot are
assigned: applications by level, each task to the emptiest slot, or to the slot of the task that feeds it if possible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import repeat
from math import ceil
from operator import attrgetter

from tidegate.domain import BatchSample, ExecutorPool
from tidegate.plan.operators.migration import Assignment, Instance, MigrationTable, Place, migrate


@dataclass(frozen=True, slots=True)
class Wanted:
    """The operators of an application, in the order of the stages, with their wanted number of tasks."""

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
    """All slots of the registered executors."""
    return [
        Place(executor.host, f"{executor.id}/{slot}") for executor in pool.executors for slot in range(executor.slots)
    ]


def live_assignment(application: str, batch: BatchSample, pool: ExecutorPool) -> dict[Instance, Place]:
    """Where the tasks of a batch ran, from its task lists. The slots of an executor are assigned in turn."""
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
    """The tables for a new plan: from the latest batch of every application to the changed parallelisms."""
    live: dict[Instance, Place] = {}
    wanted = []
    for name, batch in latest.items():
        changes = after.get(name, {})
        tasks = {stage.name: changes.get(stage.name, stage.parallelism) for stage in batch.operators}
        wanted.append(Wanted(name, tasks, level=int(bool(changes))))
        live |= live_assignment(name, batch, pool)
    return migrate(live, schedule_instances(wanted, places_of(pool), live), time_s)


def deal_in_turn(wanted: Sequence[Wanted], places: Sequence[Place]) -> dict[Instance, Place]:
    """Storm's default: interleave the slots over the hosts and assign instances to them in turn."""
    by_host: dict[str, list[Place]] = defaultdict(list)
    for place in sorted(places):
        by_host[place.host].append(place)
    longest = max((len(own) for own in by_host.values()), default=0)
    interleaved = [own[turn] for turn in range(longest) for own in by_host.values() if turn < len(own)]
    if not interleaved:
        return {}
    instances = [instance for application in wanted for instance in application.instances()]
    return {instance: interleaved[turn % len(interleaved)] for turn, instance in enumerate(instances)}


def schedule_instances(wanted: Sequence[Wanted], places: Sequence[Place], now: Assignment) -> IndexedAssignment:
    """Keep what can stay, free what is gone or crowded, and assign the rest, highest level first.

    The stages of an application run one after another, so each operator may use every slot. Two tasks of one operator
    on the same slot would run one after the other, so they share a slot only if there are more tasks than slots.

    >>> places = [Place("a", "0"), Place("b", "0")]
    >>> first = schedule_instances([Wanted("t", {"split": 1})], places, {})
    >>> again = schedule_instances([Wanted("t", {"split": 2})], places, first)
    >>> again[Instance("t", "split", 0)] == first[Instance("t", "split", 0)], len(set(again.values()))
    (True, 2)
    """
    if not places:
        return IndexedAssignment.of({})
    before = now if isinstance(now, IndexedAssignment) else IndexedAssignment.of(now)
    rows, missing, ended = _rows(wanted, before)
    schedule = _kept(rows) if ended else IndexedAssignment(before)
    schedule.rows = rows
    schedule.held = dict(Counter(schedule.values()) if ended else before.held)
    schedule.crowded = before.crowded.intersection(rows)
    schedule.partial = set()
    if gone := schedule.held.keys() - places:
        for instance in [instance for instance, place in schedule.items() if place in gone]:
            missing.add(schedule.free(instance))
        for place in gone:
            del schedule.held[place]
    if schedule.crowded and len(schedule.held) < len(places):
        for operator in schedule.crowded:
            missing |= _thin_out(operator, schedule, len(places))
    if missing:
        _seat(missing, schedule, places)
    return schedule


Operator = tuple[str, str]
"""Application and operator."""
Seats = list[Place | None]
"""The slots of an operator's tasks; None for a task without one. Schedules share these lists: never change one."""


class IndexedAssignment(dict[Instance, Place]):
    """An assignment with an index of the slots of every operator and the number of tasks on every slot.

    Most operators keep their slots from one schedule to the next, so their rows are reused and their instances
    untouched.
    """

    rows: dict[Operator, Seats]
    held: dict[Place, int]
    crowded: set[Operator]
    """Operators with two or more tasks that may share a slot."""
    partial: set[Operator]
    """Operators with a task without a slot."""

    def free(self, instance: Instance) -> Operator:
        """Take a task off its slot. Returns its operator."""
        application, name, task = instance
        operator = application, name
        seats = self.rows[operator] = list(self.rows[operator])
        seats[task] = None
        del self[instance]
        return operator

    @classmethod
    def of(cls, assignment: Assignment) -> IndexedAssignment:
        """The same assignment, with its rows."""
        schedule = cls(assignment)
        schedule.rows, schedule.held = {}, dict(Counter(assignment.values()))
        for (application, operator, task), place in assignment.items():
            row = schedule.rows.setdefault((application, operator), [])
            row.extend([None] * (task + 1 - len(row)))
            row[task] = place
        schedule.crowded = {operator for operator, row in schedule.rows.items() if len(set(row)) < len(row)}
        schedule.partial = {operator for operator, row in schedule.rows.items() if None in row}
        return schedule


def _rows(wanted: Sequence[Wanted], before: IndexedAssignment) -> tuple[dict[Operator, Seats], set[Operator], bool]:
    """The slots of all operators, highest level first; operators with missing slots; and whether a task has ended."""
    known, partial, new, cut = before.rows, before.partial, 0, False
    rows: dict[Operator, Seats] = {}
    missing = set()
    for application in sorted(wanted, key=attrgetter("level"), reverse=True):  # equal levels stay in order
        name = application.application
        for operator, count in application.parallelism.items():
            key = name, operator
            seats = known.get(key)
            if seats is None:
                new += 1
                seats = [None] * count
                missing.add(key)
            elif len(seats) != count or (partial and key in partial):
                cut = cut or len(seats) > count
                seats = seats[:count] + [None] * (count - len(seats))
                if None in seats:
                    missing.add(key)
            rows[key] = seats
    return rows, missing, cut or len(rows) - new < len(known)


def _kept(rows: Mapping[Operator, Seats]) -> IndexedAssignment:
    """The tasks that have a slot and have not ended."""
    return IndexedAssignment(
        (Instance(*operator, task), place)
        for operator, seats in rows.items()
        for task, place in enumerate(seats)
        if place is not None
    )


def _thin_out(operator: Operator, schedule: IndexedAssignment, slots: int) -> set[Operator]:
    """If slots are empty, tasks of one operator need not share a slot, so the surplus tasks give theirs up."""
    seats = schedule.rows[operator]
    room = ceil(len(seats) / slots)
    crowd: Counter[Place] = Counter()
    freed: set[Operator] = set()
    for task, place in enumerate(seats):
        if place is not None:
            crowd[place] += 1
            if crowd[place] > room:
                freed.add(schedule.free(Instance(*operator, task)))
                schedule.held[place] -= 1
    return freed


def _seat(missing: set[Operator], schedule: IndexedAssignment, places: Sequence[Place]) -> None:
    """Assign the tasks that have no slot yet: to the emptiest slot, or to the slot of the task that feeds them.

    Of equally empty slots the first by host and port is taken. A slot is *full* for an operator when it has its even
    part of the operator's tasks. The feeder's slot is used if it holds at most one task more than the emptiest.
    """
    rows, held, new_tuple = schedule.rows, schedule.held, tuple.__new__
    ordered, count = sorted(places), len(places)
    # A heap of numbers, tasks × slots + rank: they are much cheaper to compare than places.
    heap = [count * tasks + rank for rank, tasks in enumerate(map(held.get, ordered, repeat(0)))]
    heapify(heap)
    before: Operator = "", ""
    for operator in rows:
        feeder, before = before, operator  # the rows of an application are in the order of its stages
        if operator not in missing:
            continue
        application, name = operator
        beside = rows[feeder] if feeder[0] == application else []
        seats = rows[operator] = list(rows[operator])
        room = ceil(len(seats) / count)
        if room == 1:
            full = set(seats)
        else:
            full = {place for place, tasks in Counter(seats).items() if tasks >= room}
            schedule.crowded.add(operator)
        for task, seated in enumerate(seats):
            if seated is not None:
                continue
            passed = None
            while True:  # find the emptiest slot that is not full
                entry = heap[0]
                place = ordered[entry % count]
                now = held.get(place, 0)
                if entry // count < now:  # it got tasks since it was queued, so it moves back
                    heapreplace(heap, count * now + entry % count)
                elif place in full:
                    passed = [*(passed or ()), heappop(heap)]
                else:
                    break
            near = beside[task] if task < len(beside) else None
            if near is not None and near not in full and held[near] <= now + 1:
                place, now = near, held[near]
            else:
                heapreplace(heap, entry + count)  # the emptiest slot gets one task more
            for waiting in passed or ():
                heappush(heap, waiting)
            held[place] = now + 1
            # bypasses the named constructor, which takes three times as long
            seats[task] = schedule[new_tuple(Instance, (application, name, task))] = place
            if room == 1 or seats.count(place) >= room:
                full.add(place)
