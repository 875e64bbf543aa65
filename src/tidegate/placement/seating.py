"""The current assignment with loads and member lists, updated with every move of the search kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import FloatArray, IntArray, kernel


class SeatedTasks(NamedTuple):
    """An assignment with the data that a move needs. The arrays change in place."""

    hosts: IntArray  # per task, or -1 while it waits
    load: FloatArray  # hosts × columns
    members: IntArray  # hosts × width, the first `size` of a row are tasks
    place: IntArray  # per task, its position in the row of its host
    size: IntArray  # tasks per host


@kernel
def seat(demand: FloatArray, hosts: IntArray, count: int) -> SeatedTasks:
    """The seating of an assignment; `demand` has one row of zeros at the end, the empty task."""
    tasks, columns = demand.shape[0] - 1, demand.shape[1]
    size = np.zeros(count, np.int64)
    for i in range(tasks):
        if hosts[i] >= 0:
            size[hosts[i]] += 1
    width = max(size.max() + 8, 4 * (tasks // count + 1) + 16)
    size[:] = 0
    seating = SeatedTasks(
        hosts,
        np.zeros((count, columns)),
        np.full((count, width), -1, np.int64),
        np.zeros(tasks + 1, np.int64),
        size,
    )
    for i in range(tasks):
        if hosts[i] >= 0:
            enter(seating, demand, i, hosts[i])
    return seating


@kernel
def enter(seating: SeatedTasks, demand: FloatArray, task: int, host: int) -> None:
    """Put a waiting task on a host whose row has space."""
    seating.members[host, seating.size[host]] = task
    seating.place[task] = seating.size[host]
    seating.size[host] += 1
    seating.hosts[task] = host
    for m in range(demand.shape[1]):
        seating.load[host, m] += demand[task, m]


@kernel
def leave(seating: SeatedTasks, demand: FloatArray, task: int) -> None:
    """Take a task off its host."""
    host = seating.hosts[task]
    seating.size[host] -= 1
    last = seating.members[host, seating.size[host]]
    seating.members[host, seating.place[task]] = last
    seating.place[last] = seating.place[task]
    seating.hosts[task] = -1
    for m in range(demand.shape[1]):
        seating.load[host, m] -= demand[task, m]


@kernel
def exchange(seating: SeatedTasks, demand: FloatArray, task: int, other: int, target: int) -> None:
    """Swap two tasks; with the empty task as `other`, move the task to the target host."""
    source = seating.hosts[task]
    if other == demand.shape[0] - 1:
        leave(seating, demand, task)
        enter(seating, demand, task, target)
        return
    for m in range(demand.shape[1]):
        shift = demand[task, m] - demand[other, m]
        seating.load[source, m] -= shift
        seating.load[target, m] += shift
    here, there = seating.place[task], seating.place[other]
    seating.members[source, here] = other
    seating.members[target, there] = task
    seating.place[task], seating.place[other] = there, here
    seating.hosts[task], seating.hosts[other] = target, source
