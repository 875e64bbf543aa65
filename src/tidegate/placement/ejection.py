"""Fit tasks on given hosts: guided ejection search (Nagata and Bräysy 2009), within capacity throughout.

Tasks without a host wait in a pool. The task on top goes to a host where it fits, or ejects the tasks that have been
easiest to place so far. Random exchanges within capacity then perturb the rest. This works well if a few large tasks
exclude one another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, IntArray, draw, inlined, kernel
from .hostload import TOLERANCE
from .seating import SeatedTasks, enter, exchange, leave, seat

SHAKES = 100  # attempted exchanges between two insertions
MOVE = 0.5  # share of shakes that move one task; the others exchange two


@inlined
def _fits(load: FloatArray, room: FloatArray, added: FloatArray, out: FloatArray) -> bool:
    """`load + added − out ≤ room` in every column."""
    ok = True
    for m in range(load.shape[0]):
        if load[m] + added[m] - out[m] > room[m] + TOLERANCE:
            ok = False
            break
    return ok


@kernel
def _open_host(seating: SeatedTasks, demand: FloatArray, room: FloatArray, task: int, state: NDArray[np.uint64]) -> int:
    """Return a random host with room for the task, or −1."""
    chosen, options = -1, 0
    nothing = demand[demand.shape[0] - 1]
    for h in range(room.shape[0]):
        if seating.size[h] < seating.members.shape[1] and _fits(seating.load[h], room[h], demand[task], nothing):
            options += 1
            if draw(state) * options < 1.0:
                chosen = h
    return chosen


@kernel
def _cheapest_ejection(
    seating: SeatedTasks,
    demand: FloatArray,
    room: FloatArray,
    task: int,
    trouble: FloatArray,
    ejected: IntArray,
    state: NDArray[np.uint64],
) -> int:
    """Fill `ejected` with up to three tasks of one host whose leaving lets the task in, at the least total trouble.

    Ties are broken at random; returns the number of fit tests. Without any way in, `ejected` stays at −1.
    """
    columns = demand.shape[1]
    two, three = np.zeros(columns), np.zeros(columns)
    price, ties, spent = np.inf, 1, 0
    ejected[:] = -1
    for h in range(room.shape[0]):
        count, members = seating.size[h], seating.members[h]
        for x in range(count):
            i = members[x]
            if trouble[i] > price:
                continue
            spent += 1
            if _fits(seating.load[h], room[h], demand[task], demand[i]):
                ties = ties + 1 if trouble[i] == price else 1
                if trouble[i] < price or draw(state) * ties < 1.0:
                    price = trouble[i]
                    ejected[0], ejected[1], ejected[2] = i, -1, -1
        for x in range(count):
            i = members[x]
            for y in range(x + 1, count):
                j = members[y]
                pair = trouble[i] + trouble[j]
                if pair > price:
                    continue
                spent += 1
                for m in range(columns):
                    two[m] = demand[i, m] + demand[j, m]
                if _fits(seating.load[h], room[h], demand[task], two):
                    ties = ties + 1 if pair == price else 1
                    if pair < price or draw(state) * ties < 1.0:
                        price = pair
                        ejected[0], ejected[1], ejected[2] = i, j, -1
                    continue  # a third would only cost more
                for z in range(y + 1, count):
                    k = members[z]
                    if pair + trouble[k] >= price:
                        continue
                    spent += 1
                    for m in range(columns):
                        three[m] = two[m] + demand[k, m]
                    if _fits(seating.load[h], room[h], demand[task], three):
                        price, ties = pair + trouble[k], 1
                        ejected[0], ejected[1], ejected[2] = i, j, k
    return spent


@kernel
def _shake(seating: SeatedTasks, demand: FloatArray, room: FloatArray, state: NDArray[np.uint64]) -> None:
    """Random moves and swaps between hosts, kept where both stay within capacity."""
    tasks, count = demand.shape[0] - 1, room.shape[0]
    for _ in range(SHAKES):
        i = int(draw(state) * tasks)
        a = seating.hosts[i]
        if draw(state) < MOVE:
            j, b = tasks, int(draw(state) * count)
            if seating.size[b] == seating.members.shape[1]:
                continue
        else:
            j = int(draw(state) * tasks)
            b = seating.hosts[j]
        if a < 0 or b < 0 or a == b:
            continue
        if _fits(seating.load[b], room[b], demand[i], demand[j]) and _fits(
            seating.load[a], room[a], demand[j], demand[i]
        ):
            exchange(seating, demand, i, j, b)


@kernel
def eject(demand: FloatArray, room: FloatArray, hosts: IntArray, evaluations: int, state: NDArray[np.uint64]) -> int:
    """Change `hosts` in place until no task waits at −1 or `evaluations` (fit tests) are spent; returns how many.

    `demand` carries one row of zeros at the end. On failure the tasks still in the pool are at −1.
    """
    tasks, count = demand.shape[0] - 1, room.shape[0]
    seating = seat(demand, hosts, count)
    pool, waiting = np.zeros(tasks, np.int64), 0
    for i in range(tasks):
        if hosts[i] < 0:
            pool[waiting] = i
            waiting += 1
    trouble = np.ones(tasks)  # how often a task found no host, used as the cost of ejecting it
    ejected = np.full(3, -1, np.int64)
    spent = 0
    while waiting > 0 and spent < evaluations:
        waiting -= 1
        task = pool[waiting]
        chosen = _open_host(seating, demand, room, task, state)
        spent += count
        if chosen < 0:
            trouble[task] += 1.0
            spent += _cheapest_ejection(seating, demand, room, task, trouble, ejected, state)
            if ejected[0] >= 0:
                chosen = hosts[ejected[0]]
            for e in range(len(ejected)):
                gone = int(ejected[e])
                if gone >= 0:
                    leave(seating, demand, gone)
                    pool[waiting] = gone
                    waiting += 1
        if chosen >= 0:
            enter(seating, demand, task, chosen)
        else:  # every host would have to eject more than three: move it to the bottom of the pool
            for w in range(waiting, 0, -1):
                pool[w] = pool[w - 1]
            pool[0] = task
            waiting += 1
        if waiting > 0:
            _shake(seating, demand, room, state)
            spent += SHAKES
    return spent
