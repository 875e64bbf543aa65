"""The fleet's compiled loop: one-second steps, shared cores, FIFO queues, and the latency of every row.

Per step, after Melnik et al. (section 4; the same symbols): `s(t) = x(t) + q(t − Δt)`. A host whose replicas need more
than its cores is shared in proportion to their demand. `q(t) = s(t) − IP(s(t), r(t))`. Unlike in the general plant, a
row may pass a whole chain within a step: replicas stream and do not wait for batches.
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
    cores: Floats  # per host
    # placement of replicas: operator o has the seats from seat_first[o] to seat_first[o + 1]
    seat_first: Ints
    seat_host: Ints
    seat_count: Ints
    replicas: Ints
    # state
    queue: Floats
    inflow: Floats  # rows that arrived at each operator in the last step
    paused_until: Ints  # step
    oldest: Ints  # per application: arrival step of the oldest row inside
    gone: Floats  # rows of that step that have left
    # measures over the window
    arrived: Floats  # per operator: rows
    asked: Floats  # per operator: utilisation of the worst instance, summed over steps that count
    counted: Floats  # per operator: those steps
    # measures over the run
    histogram: Floats  # application × latency bin: rows
    latency_sum_s: Floats  # application × latency bin
    late: Floats
    done: Floats
    busy: Floats  # per operator: core-seconds


@kernel
def run(a: FleetArrays, arrivals: Floats, start: int, steps: int, response_s: Floats, latency_s: Floats) -> None:
    """`arrivals`: application × step. Fills `response_s` (operator × step) and `latency_s` (worst row)."""
    load, room, demand = np.zeros(len(a.cores)), np.zeros(len(a.cost_s)), np.zeros(len(a.cost_s))
    for i in range(steps):
        t = start + i
        _share(a, arrivals, t, load, room, demand)
        for app in range(len(a.first) - 1):
            rows = arrivals[app, t]
            per_source_row = 1.0
            for o in range(a.first[app], a.first[app + 1]):
                a.inflow[o] = rows
                a.arrived[o] += rows
                waiting = a.queue[o] + rows
                able = room[o] / a.cost_s[o]
                served = min(waiting, able)
                a.queue[o] = waiting - served if waiting - served > 1e-9 * waiting else 0.0
                # The wait of the last row: the queue ahead of it, at the current speed.
                response_s[o, i] = a.cost_s[o] + (a.queue[o] / able if able > 0 else a.paused_until[o] - t)
                a.busy[o] += served * a.cost_s[o]
                if o + 1 == a.first[app + 1]:
                    latency_s[app, i] = _leave(a, arrivals, app, served / per_source_row, t)
                rows = served * a.selectivity[o]
                per_source_row *= a.selectivity[o]


@kernel
def _share(a: FleetArrays, arrivals: Floats, t: int, load: Floats, room: Floats, demand: Floats) -> None:
    """Cores that every operator may use. Rows from upstream have not arrived yet; those of the last step stand in."""
    for app in range(len(a.first) - 1):
        a.inflow[a.first[app]] = arrivals[app, t]
    load[:] = 0.0
    for o in range(len(a.cost_s)):
        runs = a.paused_until[o] <= t and a.replicas[o] > 0
        demand[o] = min(1.0, (a.queue[o] + a.inflow[o]) * a.cost_s[o] / a.replicas[o]) if runs else 0.0
        for s in range(a.seat_first[o], a.seat_first[o + 1]):
            load[a.seat_host[s]] += a.seat_count[s] * demand[o]
    crowded = False
    for h in range(len(load)):
        load[h] = (
            a.cores[h] / load[h] if load[h] > a.cores[h] else 1.0
        )  # from here on: the share of the demand that is met
        crowded = crowded or load[h] < 1.0
    for o in range(len(a.cost_s)):
        room[o] = 0.0
        if a.paused_until[o] > t:
            continue
        room[o], worst = a.replicas[o], 1.0
        if crowded:
            # With idle cores a replica may use a whole one. On a crowded host it gets its share of its demand.
            for s in range(a.seat_first[o], a.seat_first[o + 1]):
                share = load[a.seat_host[s]]
                if share < 1.0:
                    room[o] -= a.seat_count[s] * (1.0 - share * demand[o])
                    worst = min(worst, share)
        a.asked[o] += min(1.0, demand[o] / worst)
        a.counted[o] += 1.0


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
