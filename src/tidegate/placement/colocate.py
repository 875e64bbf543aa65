"""Reduces traffic on the same hosts: moves and swaps that place communicating tasks together, within capacity."""

from __future__ import annotations

import numpy as np

from .arrays import FloatArray, IntArray, inlined, kernel
from .hostload import TOLERANCE, flatten, sum_by_host
from .problem import UNPLACED, Problem
from .schedule import migrations

SWEEPS = 20


@inlined
def _pull(
    task: int,
    at: int,
    hosts: IntArray,
    starts: IntArray,
    partners: IntArray,
    rates: FloatArray,
    region: IntArray,
    separation: FloatArray,
    ignored: int,
) -> float:
    """`Σ_partners rate · distance` of a task if it ran on host `at`; one partner can be left out."""
    total = 0.0
    for e in range(starts[task], starts[task + 1]):
        other = partners[e]
        if other != ignored and hosts[other] != at:
            total += rates[e] * separation[region[at], region[hosts[other]]]
    return total


@inlined
def _holds(load: FloatArray, room: FloatArray, added: FloatArray, removed: FloatArray) -> bool:
    ok = True
    for m in range(load.shape[0]):
        if load[m] + added[m] - removed[m] > room[m] + TOLERANCE:
            ok = False
            break
    return ok


@kernel
def _descend(
    demand: FloatArray,
    room: FloatArray,
    load: FloatArray,
    hosts: IntArray,
    starts: IntArray,
    partners: IntArray,
    rates: FloatArray,
    region: IntArray,
    separation: FloatArray,
    placed: IntArray,
    moves_left: int,
) -> None:
    tasks, columns = demand.shape[0] - 1, demand.shape[1]
    for _ in range(SWEEPS):
        changed = False
        for i in range(tasks):
            for e in range(starts[i], starts[i + 1]):
                a, b = hosts[i], hosts[partners[e]]
                if a == b:
                    continue
                here = _pull(i, a, hosts, starts, partners, rates, region, separation, -1)
                there = _pull(i, b, hosts, starts, partners, rates, region, separation, -1)
                if there >= here - 1e-12:
                    continue
                best, partner = 0.0, -1
                if _holds(load[b], room[b], demand[i], demand[tasks]):
                    best, partner = here - there, tasks
                for j in range(tasks):
                    if hosts[j] != b:
                        continue
                    # The edge between i and j keeps its length when they are swapped.
                    gain = (
                        _pull(i, a, hosts, starts, partners, rates, region, separation, j)
                        - _pull(i, b, hosts, starts, partners, rates, region, separation, j)
                        + _pull(j, b, hosts, starts, partners, rates, region, separation, i)
                        - _pull(j, a, hosts, starts, partners, rates, region, separation, i)
                    )
                    if (
                        gain > best + 1e-12
                        and _holds(load[b], room[b], demand[i], demand[j])
                        and _holds(load[a], room[a], demand[j], demand[i])
                    ):
                        best, partner = gain, j
                if partner < 0:
                    continue
                price = int(placed[i] == a) - int(placed[i] == b)
                if partner < tasks:
                    price += int(placed[partner] == b) - int(placed[partner] == a)
                if price > moves_left:
                    continue
                moves_left -= price
                for m in range(columns):
                    shift = demand[i, m] - demand[partner, m]
                    load[a, m] -= shift
                    load[b, m] += shift
                hosts[i] = b
                if partner < tasks:
                    hosts[partner] = a
                changed = True
        if not changed:
            break


def colocate(problem: Problem, hosts: IntArray) -> IntArray:
    """`hosts` with less traffic, on no more hosts, without new overload, within the cap on migrations."""
    if not problem.rates.size:
        return hosts
    flat = flatten(problem)
    senders = np.concatenate([problem.senders, problem.receivers])
    order = np.argsort(senders, kind="stable")
    partners = np.concatenate([problem.receivers, problem.senders])[order]
    starts = np.searchsorted(senders[order], np.arange(len(problem.tasks) + 1)).astype(np.int64)
    moves = len(problem.tasks)
    if problem.max_migrations is not None:
        moves = problem.max_migrations - migrations(problem, hosts)
    hosts = hosts.copy()
    _descend(
        np.vstack([flat.demand, np.zeros((1, flat.demand.shape[1]))]),
        flat.room,
        sum_by_host(flat.demand, hosts, len(problem.hosts)),
        hosts,
        starts,
        partners,
        np.concatenate([problem.rates, problem.rates])[order],
        problem.region,
        problem.separation,
        problem.placed if (problem.placed != UNPLACED).any() else np.full_like(hosts, UNPLACED),
        max(moves, 0),
    )
    return hosts
