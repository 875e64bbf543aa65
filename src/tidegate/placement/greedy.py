"""One pass over the tasks: round-robin, first fit and best fit on the time-merged signal, and the repair they share."""

from __future__ import annotations

import numpy as np

from .arrays import FloatArray, IntArray, kernel
from .hostload import TOLERANCE, Flat, flatten
from .problem import UNPLACED, Problem

FIRST_FIT, BEST_FIT = 0, 1


@kernel
def fit_in_order(demand: FloatArray, room: FloatArray, order: IntArray, hosts: IntArray, rule: int) -> None:
    """Place each unplaced task, in order, on a host with enough capacity for the merged signal `max_t (load + x − room)
    ≤ 0`.

    First fit takes the first such host, best fit the one left with the least free room at its peak. A task
    that fits nowhere goes where it adds the least overload.
    """
    count, columns = room.shape
    load = np.zeros((count, columns))
    for i in range(demand.shape[0]):
        if hosts[i] >= 0:
            for m in range(columns):
                load[hosts[i], m] += demand[i, m]
    for i in order:
        if hosts[i] >= 0:
            continue
        chosen, tightest = -1, np.inf
        for h in range(count):
            slack = np.inf
            for m in range(columns):
                slack = min(slack, room[h, m] - load[h, m] - demand[i, m])
                if slack < -TOLERANCE:
                    break
            if slack >= -TOLERANCE and slack < tightest - 1e-12:
                chosen, tightest = h, slack
                if rule == FIRST_FIT:
                    break
        if chosen < 0:
            least = np.inf
            for h in range(count):
                added = 0.0
                for m in range(columns):
                    free = room[h, m] - load[h, m]
                    added += max(demand[i, m] - max(free, 0.0), 0.0)
                if added < least:
                    chosen, least = h, added
        hosts[i] = chosen
        for m in range(columns):
            load[chosen, m] += demand[i, m]


def largest_first(demand: FloatArray) -> IntArray:
    """Tasks by descending peak, then by descending total."""
    return np.lexsort((-demand.sum(axis=1), -demand.max(axis=1))).astype(np.int64)


def roomiest_first(flat: Flat, problem: Problem | None = None) -> IntArray:
    """Hosts by descending room; among equals the cheaper, then the one that runs something now."""
    size = -np.round(flat.room.mean(axis=1), 9)
    if problem is None:
        return np.argsort(size, kind="stable").astype(np.int64)
    idle = ~np.isin(np.arange(len(problem.hosts)), problem.placed)
    return np.lexsort((idle, problem.cost, size)).astype(np.int64)


def decreasing(problem: Problem, flat: Flat, rule: int) -> IntArray:
    """First or best fit, largest tasks first, roomiest hosts first."""
    order = roomiest_first(flat, problem)
    hosts = np.full(len(problem.tasks), UNPLACED, dtype=np.int64)
    fit_in_order(flat.demand, np.ascontiguousarray(flat.room[order]), largest_first(flat.demand), hosts, rule)
    return order[hosts]


def first_fit_decreasing(problem: Problem, rng: np.random.Generator) -> IntArray:
    """The baseline of vector packing."""
    return decreasing(problem, flatten(problem), FIRST_FIT)


def best_fit_decreasing(problem: Problem, rng: np.random.Generator) -> IntArray:
    """Best fit on the time-merged signal: a task's peaks may fill another's valleys."""
    return decreasing(problem, flatten(problem), BEST_FIT)


def round_robin(problem: Problem, rng: np.random.Generator) -> IntArray:
    """Storm's default: tasks are assigned to all hosts in turn, regardless of load."""
    return np.arange(len(problem.tasks), dtype=np.int64) % len(problem.hosts)
