"""The fleet's compiled loop: one-second steps, shared cores, FIFO queues, and the latency of every row.

Per step, after Melnik et al. (section 4; the same symbols): `s(t) = x(t) + q(t − Δt)`. A host whose tasks need more
than its cores is shared in proportion to their demand. `q(t) = s(t) − IP(s(t), r(t))`. Unlike in the general plant, a
row may pass a whole chain within a step: batches are much shorter than a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.accelerate import kernel
from tidegate.adapters.sim.kernels import latency_bin

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class FleetArrays(NamedTuple):
    """Everything the loop reads and writes. Operators are ordered by application and by position in the chain."""

    # the fleet
    first: Ints  # per application: its first operator; one more entry at the end
    cost_s: Floats  # per operator: core-seconds per row
    selectivity: Floats
    base_s: Floats  # per application: service and network, the minimum latency of a row
    objective_s: Floats
    task_cores: float  # cores that a task takes besides its rows
    # placement
    host: Ints  # per application
    cores: Floats  # per host
    tasks: Ints  # per operator
    # state
    queue: Floats
    inflow: Floats  # rows that arrived at each operator in the last step
    paused_until: Ints  # per application: step
    oldest: Ints  # per application: arrival step of the oldest row inside
    gone: Floats  # rows of that step that have left
    # measures over the window
    served: Floats  # per operator: rows
    # measures over the run
    histogram: Floats  # application × latency bin: rows
    latency_sum_s: Floats  # application × latency bin
    late: Floats
    done: Floats
    busy: Floats  # per operator: core-seconds for rows


@kernel
def run(a: FleetArrays, arrivals: Floats, start: int, steps: int, latency_s: Floats) -> None:
    """`arrivals`: application × step. Fills `latency_s` (application × step: the worst row, −1 if none left)."""
    share, room, demand = np.zeros(len(a.cores)), np.zeros(len(a.cost_s)), np.zeros(len(a.cost_s))
    for i in range(steps):
        t = start + i
        _share(a, arrivals, t, share, room, demand)
        for app in range(len(a.first) - 1):
            rows = arrivals[app, t]
            per_source_row = 1.0
            for o in range(a.first[app], a.first[app + 1]):
                a.inflow[o] = rows
                waiting = a.queue[o] + rows
                served = min(waiting, room[o] / a.cost_s[o])
                a.queue[o] = waiting - served if waiting - served > 1e-9 * waiting else 0.0
                a.served[o] += served
                a.busy[o] += served * a.cost_s[o]
                if o + 1 == a.first[app + 1]:
                    latency_s[app, i] = _leave(a, arrivals, app, served / per_source_row, t)
                rows = served * a.selectivity[o]
                per_source_row *= a.selectivity[o]


@kernel
def _share(a: FleetArrays, arrivals: Floats, t: int, share: Floats, room: Floats, demand: Floats) -> None:
    """Cores that every operator may use. Rows from upstream have not arrived yet; those of the last step stand in."""
    share[:] = 0.0
    taken = np.zeros(len(a.cores))
    for app in range(len(a.first) - 1):
        a.inflow[a.first[app]] = arrivals[app, t]
        for o in range(a.first[app], a.first[app + 1]):
            demand[o] = 0.0
            taken[a.host[app]] += a.task_cores * a.tasks[o]
            if a.paused_until[app] <= t:
                demand[o] = min(float(a.tasks[o]), (a.queue[o] + a.inflow[o]) * a.cost_s[o])
                share[a.host[app]] += demand[o]
    for h in range(len(share)):
        free = a.cores[h] - taken[h]
        # from here on: the share of the demand that is met
        share[h] = max(0.0, free) / share[h] if share[h] > free else 1.0
    for app in range(len(a.first) - 1):
        met = share[a.host[app]]
        for o in range(a.first[app], a.first[app + 1]):
            if a.paused_until[app] > t:
                room[o] = 0.0
            else:  # with idle cores a task may use a whole one
                room[o] = float(a.tasks[o]) if met >= 1.0 else met * demand[o]


@kernel
def _leave(a: FleetArrays, arrivals: Floats, app: int, rows: float, t: int) -> float:
    """Rows leave in the order of arrival. Returns the worst latency among them, or −1 if none left."""
    worst = -1.0
    while rows > 1e-9 and a.oldest[app] <= t:
        there = arrivals[app, a.oldest[app]] - a.gone[app]
        taken = min(rows, there)
        if taken > 0:
            latency = float(t - a.oldest[app]) + a.base_s[app]
            at = latency_bin(latency)
            a.histogram[app, at] += taken
            a.latency_sum_s[app, at] += taken * latency
            a.done[app] += taken
            if latency > a.objective_s[app]:
                a.late[app] += taken
            worst = max(worst, latency)
        rows -= taken
        if taken >= there - 1e-9 * (1.0 + there):
            a.oldest[app] += 1
            a.gone[app] = 0.0
        else:
            a.gone[app] += taken
    return worst
