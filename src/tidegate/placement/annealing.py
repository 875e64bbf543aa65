"""Fits tasks on given hosts by simulated annealing of the total overload, with moves and swaps from overloaded
hosts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, IntArray, draw, inlined, kernel
from .hostload import TOLERANCE
from .seating import exchange, seat

# Temperatures in mean excess per column: high enough to undo a placement, low enough for gaps of 0.1 % of a host.
HOT, COLD = 0.0125, 0.00025
FOCUS = 0.9  # share of moves that start at an overloaded host
SWAP = 0.8  # share of moves that swap two tasks; the others move one


@inlined
def _excess(load: FloatArray, room: FloatArray, added: FloatArray, removed: FloatArray) -> float:
    """`Σ_m (load + added − removed − room)⁺`."""
    total = 0.0
    for m in range(load.shape[0]):
        total += max(load[m] + added[m] - removed[m] - room[m], 0.0)
    return total


@kernel
def _note(crowded: IntArray, listed: IntArray, crowds: int, host: int, over: bool) -> int:
    """Update the list of overloaded hosts and each one's position in it. Returns its length."""
    if over and listed[host] < 0:
        crowded[crowds] = host
        listed[host] = crowds
        return crowds + 1
    if not over and listed[host] >= 0:
        last = crowded[crowds - 1]
        crowded[listed[host]] = last
        listed[last] = listed[host]
        listed[host] = -1
        return crowds - 1
    return crowds


@kernel
def anneal(demand: FloatArray, room: FloatArray, hosts: IntArray, evaluations: int, state: NDArray[np.uint64]) -> int:
    """Change `hosts` in place until nothing is overloaded or `evaluations` are spent. Returns the evaluations used.

    A move is a swap with the empty task, the row of zeros at the end of `demand`. On failure `hosts` contains the last
    state.
    """
    tasks, columns, count = demand.shape[0] - 1, demand.shape[1], room.shape[0]
    seating = seat(demand, hosts, count)
    load, members, size = seating.load, seating.members, seating.size
    over = np.zeros(count)
    crowded, listed, crowds = np.zeros(count, np.int64), np.full(count, -1, np.int64), 0
    for h in range(count):
        over[h] = _excess(load[h], room[h], demand[tasks], demand[tasks])
        crowds = _note(crowded, listed, crowds, h, over[h] > TOLERANCE)
    temperature = HOT * columns
    cooling = (COLD / HOT) ** (1.0 / max(evaluations, 1))
    spent = 0
    while spent < evaluations and crowds > 0 and count > 1:
        spent += 1
        temperature *= cooling
        if draw(state) < FOCUS:
            a = crowded[int(draw(state) * crowds)]
            i = members[a, int(draw(state) * size[a])]
        else:
            i = int(draw(state) * tasks)
            a = hosts[i]
        if draw(state) < SWAP:
            j = int(draw(state) * tasks)
            b = hosts[j]
        else:
            j, b = tasks, int(draw(state) * count)
        if a == b or (j == tasks and size[b] == members.shape[1]):
            continue
        after_a = _excess(load[a], room[a], demand[j], demand[i])
        after_b = _excess(load[b], room[b], demand[i], demand[j])
        worse = after_a + after_b - over[a] - over[b]
        if worse > 0 and draw(state) >= math.exp(-worse / temperature):
            continue
        exchange(seating, demand, i, j, b)
        over[a], over[b] = after_a, after_b
        crowds = _note(crowded, listed, crowds, a, after_a > TOLERANCE)
        crowds = _note(crowded, listed, crowds, b, after_b > TOLERANCE)
    return spent
