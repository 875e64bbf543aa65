"""Load of hosts over time under an assignment, and the flat, normalised form that the searches work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray, kernel
from .problem import Problem

TOLERANCE = 1e-9  # relative to a host's capacity, to allow for rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """Demand and room per column: one resource at one step, in units of its largest host."""

    demand: FloatArray
    room: FloatArray


def normalise(problem: Problem) -> Flat:
    """Merge resources and time into one axis; the unit of a resource is its largest host."""
    scale = problem.capacity.max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    tasks, resources, steps = problem.demand.shape
    demand = (problem.demand / scale[None, :, None]).reshape(tasks, resources * steps)
    return Flat(demand, np.repeat(problem.capacity / scale, steps, axis=1))


def flatten(problem: Problem) -> Flat:
    """The normalised problem without columns that repeat (constant demand, whole periods)."""
    whole = normalise(problem)
    demand, room = whole.demand, whole.room
    keyed = np.round(np.vstack([demand, room]), 12)
    _, keep = np.unique(keyed, axis=1, return_index=True)
    keep = np.sort(keep)
    return Flat(np.ascontiguousarray(demand[:, keep]), np.ascontiguousarray(room[:, keep]))


@kernel
def sum_by_host(demand: FloatArray, hosts: IntArray, count: int) -> FloatArray:
    """Load per host: `load[h] = Σ_{i on h} demand[i]`; tasks with a negative host are left out."""
    load = np.zeros((count, demand.shape[1]))
    for i in range(demand.shape[0]):
        h = hosts[i]
        if h >= 0:
            for m in range(demand.shape[1]):
                load[h, m] += demand[i, m]
    return load


def loads(problem: Problem, hosts: IntArray) -> FloatArray:
    """Load in resource units, hosts × resources × time."""
    tasks, resources, steps = problem.demand.shape
    flat = sum_by_host(
        np.ascontiguousarray(problem.demand).reshape(tasks, resources * steps), hosts, len(problem.hosts)
    )
    return flat.reshape(len(problem.hosts), resources, steps)


def excess(flat: Flat, hosts: IntArray) -> float:
    """Total demand above capacity, normalised; 0 when the assignment holds every capacity."""
    over = sum_by_host(flat.demand, hosts, flat.room.shape[0]) - flat.room
    return float(over[over > TOLERANCE].sum())
