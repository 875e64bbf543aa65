"""Replanning from the current assignment: a cap on moves, and a choice of hosts that keeps tasks where they are."""

from __future__ import annotations

import numpy as np

from .arrays import FloatArray, IntArray
from .greedy import BEST_FIT, fit_in_order, largest_first
from .hostload import TOLERANCE, Flat, excess, flatten, sum_by_host
from .problem import UNPLACED, Problem
from .schedule import migrations


def settle(problem: Problem, hosts: IntArray) -> IntArray:
    """Put the same groups of tasks on the cheapest hosts with enough capacity, at equal cost with the fewest moves.

    An assignment problem between groups and hosts (Kuhn 1955); a group never goes where it overloads,
    unless it did before.
    """
    flat = flatten(problem)
    used, group = np.unique(hosts, return_inverse=True)
    alike = bool((flat.room == flat.room[0]).all())
    if (problem.placed == UNPLACED).all() and bool((problem.cost == problem.cost[0]).all()):
        return hosts
    load = sum_by_host(flat.demand, group, len(used))
    at_home = np.zeros((len(used), len(problem.hosts)))
    running = problem.placed != UNPLACED
    np.add.at(at_home, (group[running], problem.placed[running]), 1.0)
    scale = 1.0 + len(problem.tasks)
    price = np.round(problem.cost / max(float(problem.cost.max()), 1e-300), 9) * 1e6 * scale - at_home
    if not alike:
        misfit = np.array([(row > flat.room + TOLERANCE).any(axis=1) for row in load])
        misfit[np.arange(len(used)), used] = False
        price = price + misfit * 1e12 * scale
    from scipy.optimize import linear_sum_assignment

    _, chosen = linear_sum_assignment(price)
    return chosen[group].astype(np.int64)


def within_cap(problem: Problem, target: IntArray) -> IntArray:
    """Return the target if it moves no more running tasks than allowed, else the best plan from the current
    assignment."""
    if problem.max_migrations is None:
        return target
    target = settle(problem, target)
    if migrations(problem, target) <= problem.max_migrations:
        return target
    return improve_current(problem, problem.max_migrations)


def improve_current(problem: Problem, cap: int) -> IntArray:
    """Place new tasks, relieve overload, then drain hosts, with at most `cap` moves of running tasks."""
    flat = flatten(problem)
    hosts = problem.placed.copy()
    hosts.flags.writeable = True
    _place_new(flat, hosts)
    left = cap - _relieve(problem, flat, hosts, cap)
    _evacuate(problem, flat, hosts, left)
    return hosts


def _place_new(flat: Flat, hosts: IntArray) -> None:
    """New tasks by best fit on hosts that are open; another opens only when none of them fits."""
    new = hosts == UNPLACED
    if not new.any():
        return
    used = np.unique(hosts[~new])
    order = np.concatenate([used, np.setdiff1d(np.arange(flat.room.shape[0]), used)])
    index = np.argsort(order)
    local = np.where(new, UNPLACED, index[hosts])
    fit_in_order(flat.demand, np.ascontiguousarray(flat.room[order]), largest_first(flat.demand), local, BEST_FIT)
    hosts[:] = order[local]


def _relieve(problem: Problem, flat: Flat, hosts: IntArray, cap: int) -> int:
    """Repeatedly move the task that removes the most overload. Returns the number of running tasks moved."""
    load = sum_by_host(flat.demand, hosts, flat.room.shape[0])
    moved = 0
    while excess(flat, hosts) > 0:
        over = np.maximum(load - flat.room - TOLERANCE, 0.0).sum(axis=1)
        best: tuple[float, int, int, int] | None = None
        for i in map(int, np.flatnonzero(over[hosts] > 0)):
            price = int(problem.placed[i] == hosts[i])
            if moved + price > cap:
                continue
            a = hosts[i]
            relief = over[a] - np.maximum(load[a] - flat.demand[i] - flat.room[a] - TOLERANCE, 0.0).sum()
            after = np.maximum(load + flat.demand[i] - flat.room - TOLERANCE, 0.0).sum(axis=1) - over
            after[a] = np.inf
            b = int(np.lexsort((load.sum(axis=1) == 0, after))[0])
            option = (float(after[b] - relief), price, i, b)
            best = option if best is None or option < best else best
        if best is None or best[0] >= -TOLERANCE:
            break
        _, price, i, b = best
        load[hosts[i]] -= flat.demand[i]
        load[b] += flat.demand[i]
        hosts[i] = b
        moved += price
    return moved


def _evacuate(problem: Problem, flat: Flat, hosts: IntArray, left: int) -> None:
    """Drain whole hosts into free capacity of others, those with the fewest running tasks first."""
    load = sum_by_host(flat.demand, hosts, flat.room.shape[0])
    home = problem.placed == hosts
    prices = np.bincount(hosts[home], minlength=flat.room.shape[0])
    used = np.unique(hosts)
    for h in used[np.lexsort((load[used].mean(axis=1), prices[used]))]:
        tasks = np.flatnonzero(hosts == h)
        price = int((problem.placed[tasks] == h).sum())
        if price > left:
            continue
        trial = load.copy()
        targets = _refit(flat, trial, tasks, np.setdiff1d(np.unique(hosts), [h]))
        if targets is not None:
            trial[h] = 0.0
            load, left = trial, left - price
            hosts[tasks] = targets


def _refit(flat: Flat, load: FloatArray, tasks: IntArray, open_hosts: IntArray) -> IntArray | None:
    """A host for each task among the open ones, tightest first; None when one does not fit. Changes `load`."""
    targets = np.empty(len(tasks), dtype=np.int64)
    if not open_hosts.size:
        return None
    for t in np.argsort(-flat.demand[tasks].max(axis=1), kind="stable"):
        slack = (flat.room[open_hosts] - load[open_hosts] - flat.demand[tasks[t]]).min(axis=1)
        if (slack < -TOLERANCE).all():
            return None
        chosen = open_hosts[int(np.where(slack < -TOLERANCE, np.inf, slack).argmin())]
        load[chosen] += flat.demand[tasks[t]]
        targets[t] = chosen
    return targets
