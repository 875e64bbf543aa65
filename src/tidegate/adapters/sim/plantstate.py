"""The plant's whole state as flat arrays, so that one compiled loop can advance every queue of a platform.

A *task* is one instance of an operator. A *link* is one input of a task with its own queue: from outside, or from one
instance of a parent. A queue is a ring of segments (rows, when they entered the platform, when they may be served), so
a row's age is known when it leaves. Links are sorted by the task they lead to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CPU = 0
"""Resource 0 is always the CPU, to which a task's cap applies."""

ROWS, ENTRY_S, RIPE_TICK = 0, 1, 2
"""Parts of a segment: number of rows, when they entered the platform, and the tick from which they may be served."""

NOWHERE = -1
"""Host of a task that has not been placed."""


class State(NamedTuple):
    """Arrays over tasks (t), links (l), hosts (h), resources (w), applications (a) and latency bins (b)."""

    # the network
    application: Ints  # t
    links_from: Ints  # t + 1: links links_from[t] … links_from[t + 1] - 1 lead to task t
    out_from: Ints  # t + 1: the same into out_link
    out_link: Ints  # every internal link, by the task it leaves
    link_task: Ints  # l: where it leads
    source: Ints  # l: column of the arrivals, or -1 for an internal link
    weight: Floats  # l: rows sent along it per row processed by the parent (selectivity × share of the routing)
    delay_ticks: Ints  # l: steps in transfer, beyond the one that every hop takes

    # control
    alive: Flags  # t
    active: Flags  # t: a stage that waits for the previous one is alive but not active
    greedy: Flags  # t: holds its whole cap until its queue is empty, as the tasks of a Spark stage do
    host: Ints  # t: or NOWHERE
    start_tick: Ints  # t: no service before (start-up or migration)
    cap: Floats  # t: maximum CPU that it can use
    cost: Floats  # t, w: resource-seconds per row
    fixed: Floats  # t, w: resource held while placed, rows or not
    capacity: Floats  # h, w

    # queues
    segments: Floats  # l, k, 3: ROWS, ENTRY_S, RIPE_TICK, side by side for the cache
    head: Ints  # l
    size: Ints  # l: segments in the ring
    ripe: Ints  # l: how many of them, from the head, may be served
    ripe_rows: Floats  # l
    flying_rows: Floats  # l: sent, not yet arrived

    # ledger, since the start
    received: Floats  # t: without the current record
    processed: Floats  # t: without the current record
    dropped: Floats  # t: rows of a killed operator
    latency: Floats  # a, b, 2: ROWS, and rows × latency so that a bin answers with its mean
    latency_max_s: Floats  # a

    # accumulated since the last record
    recent_in: Floats  # t
    recent_load: Floats  # t: Σ s, the rows that wanted service
    recent_done: Floats  # t
    recent_used: Floats  # h, w: resource-seconds
    recent_demand: Floats  # h, w: resource-seconds
    recent_peak: Floats  # h: the largest overload of a step

    # scratch
    want: Floats  # t
    total: Floats  # t
    fresh: Floats  # l
    demand: Floats  # h, w
    factor: Floats  # h, w


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many there are of each; `segments` are those of a queue, `bins` those of a latency histogram."""

    tasks: int
    links: int
    hosts: int
    resources: int
    applications: int
    segments: int
    bins: int


def empty_state(sizes: Sizes) -> State:
    """All queues empty, nothing alive, nothing placed."""
    tasks, links, hosts, resources = sizes.tasks, sizes.links, sizes.hosts, sizes.resources
    applications, segments, bins = sizes.applications, sizes.segments, sizes.bins
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "application": ((tasks,), np.int64),
        "links_from": ((tasks + 1,), np.int64),
        "out_from": ((tasks + 1,), np.int64),
        "out_link": ((links,), np.int64),
        "link_task": ((links,), np.int64),
        "source": ((links,), np.int64),
        "weight": ((links,), np.float64),
        "delay_ticks": ((links,), np.int64),
        "alive": ((tasks,), np.bool_),
        "active": ((tasks,), np.bool_),
        "greedy": ((tasks,), np.bool_),
        "host": ((tasks,), np.int64),
        "start_tick": ((tasks,), np.int64),
        "cap": ((tasks,), np.float64),
        "cost": ((tasks, resources), np.float64),
        "fixed": ((tasks, resources), np.float64),
        "capacity": ((hosts, resources), np.float64),
        "segments": ((links, segments, 3), np.float64),
        "head": ((links,), np.int64),
        "size": ((links,), np.int64),
        "ripe": ((links,), np.int64),
        "ripe_rows": ((links,), np.float64),
        "flying_rows": ((links,), np.float64),
        "received": ((tasks,), np.float64),
        "processed": ((tasks,), np.float64),
        "dropped": ((tasks,), np.float64),
        "latency": ((applications, bins, 2), np.float64),
        "latency_max_s": ((applications,), np.float64),
        "recent_in": ((tasks,), np.float64),
        "recent_load": ((tasks,), np.float64),
        "recent_done": ((tasks,), np.float64),
        "recent_used": ((hosts, resources), np.float64),
        "recent_demand": ((hosts, resources), np.float64),
        "recent_peak": ((hosts,), np.float64),
        "want": ((tasks,), np.float64),
        "total": ((tasks,), np.float64),
        "fresh": ((links,), np.float64),
        "demand": ((hosts, resources), np.float64),
        "factor": ((hosts, resources), np.float64),
    }
    state = State(**{name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()})
    state.host[:] = NOWHERE
    state.cap[:] = np.inf
    return state
