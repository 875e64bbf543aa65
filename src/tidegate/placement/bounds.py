"""Lower bounds on the number of hosts of any schedule without overload."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from .arrays import FloatArray, IntArray, kernel
from .hostload import TOLERANCE, Flat, flatten
from .problem import Problem

CLIQUE_TASKS = 2_000  # the pairwise test is quadratic
ROUNDINGS = 12
MIXED_COLUMNS = 16  # pairs of columns are mixed only if there are few


def load_bound(demand: FloatArray, room: FloatArray) -> int:
    """The fewest largest hosts that cover the total in every column; with equal hosts `⌈max_t Σ x(t) / capacity⌉`.

    Beyond the given hosts, further hosts of the largest size are assumed.

    >>> load_bound(np.array([[0.6], [0.6], [0.6]]), np.ones((3, 1)))
    2
    """
    total = demand.sum(axis=0)
    covered = np.cumsum(-np.sort(-room, axis=0), axis=0)
    fewest = (covered < total - TOLERANCE * np.maximum(total, 1.0)).sum(axis=0) + 1
    beyond = total - covered[-1]
    short = beyond > TOLERANCE * np.maximum(total, 1.0)
    if short.any():
        largest = np.maximum(room.max(axis=0), 1e-300)
        fewest[short] = room.shape[0] + np.ceil(beyond[short] / largest[short] - TOLERANCE).astype(np.int64)
    return int(min(fewest.max(), 2**62))


def big_item_bound(sizes: FloatArray) -> int:
    """Martello and Toth's L2 for sizes in units of the largest host (Knapsack Problems 1990, §8.3.2).

    For each α ≤ 1/2: items above 1 − α stand alone, those in (1/2, 1 − α] take a host each, and items in
    [α, 1/2] fill what the latter leave: `L(α) = |N1| + |N2| + ⌈Σ_N3 − (|N2| − Σ_N2)⌉⁺`.

    >>> big_item_bound(np.array([0.6, 0.6, 0.6, 0.45, 0.45]))
    4
    """
    ordered = np.sort(sizes)[::-1]
    prefix = np.concatenate([[0.0], np.cumsum(ordered)])
    slack = 1e-7  # a size at a threshold counts as smaller: the bound stays valid
    halves = np.searchsorted(-ordered, -(0.5 + slack), side="left")  # items above 1/2
    alphas = np.unique(np.concatenate([[0.0], ordered[ordered <= 0.5]]))
    alone = np.searchsorted(-ordered, -(1.0 - alphas + slack), side="left")
    until = np.searchsorted(-ordered, -(alphas - slack), side="right")
    until = np.maximum(until, halves)
    alone = np.minimum(alone, halves)
    free = (halves - alone) - (prefix[halves] - prefix[alone])
    fill = np.ceil(prefix[until] - prefix[halves] - free - TOLERANCE * max(1.0, prefix[-1]))
    return int((halves + np.maximum(fill, 0)).max())


def rounding_bound(sizes: FloatArray) -> int:
    """Fekete and Schepers' dual feasible functions (2001): `u_k(x) = ⌊(k + 1) x⌋ / k`, or x where that is whole.

    Sizes above 1/(k + 1) count as 1/k, because no more than k of them share a host. With several columns of sizes, the
    best of their bounds.

    >>> rounding_bound(np.full(5, 0.4))
    3
    """
    totals: list[float] = []
    for k in range(1, ROUNDINGS + 1):
        scaled = (k + 1) * sizes
        whole = np.abs(scaled - np.round(scaled)) < TOLERANCE * (k + 1)
        totals.append(float(np.where(whole, sizes, np.floor(scaled) / k).sum(axis=0).max()))
    return math.ceil(max(totals) - 1e-4)


@kernel
def _clique(demand: FloatArray, order: IntArray, start: int) -> int:
    """Greedy clique of tasks, in the given order, of which no two fit on the largest host together."""
    chosen = np.zeros(demand.shape[0], np.int64)
    chosen[0] = order[start]
    count = 1
    for k in range(order.shape[0]):
        i = order[k]
        if i == chosen[0]:
            continue
        apart = True
        for c in range(count):
            j = chosen[c]
            clash = False
            for m in range(demand.shape[1]):
                if demand[i, m] + demand[j, m] > 1.0 + 1e-7:
                    clash = True
                    break
            if not clash:
                apart = False
                break
        if apart:
            chosen[count] = i
            count += 1
    return count


def clique_bound(demand: FloatArray) -> int:
    """Tasks that exclude one another need a host each: the largest set a greedy search finds."""
    tasks = demand.shape[0]
    if tasks > CLIQUE_TASKS or demand.max() <= 0.5:
        return 1
    order = np.argsort(-demand.max(axis=1), kind="stable").astype(np.int64)
    return max(int(_clique(demand, order, start)) for start in range(min(tasks, 32)))


def _mixtures(demand: FloatArray) -> list[FloatArray]:
    """Scalar relaxations: any convex mixture of columns is ≤ 1 on every host, so each is a bin-packing problem."""
    columns = demand.shape[1]
    sizes = [demand[:, m] for m in range(columns)]
    if 1 < columns <= MIXED_COLUMNS:
        total = demand.sum(axis=0)
        sizes.append(demand @ (total / max(float(total.sum()), 1e-300)))
        sizes += [(demand[:, a] + demand[:, b]) / 2 for a, b in combinations(range(columns), 2)]
    return sizes


def cover_bound(flat: Flat) -> int:
    """`min Σ y_k` hosts of kind k that cover every column at once (linear relaxation), for unlike hosts."""
    kinds, counts = np.unique(flat.room, axis=0, return_counts=True)
    if len(kinds) == 1 or flat.demand.shape[1] == 1:
        return 0
    from scipy.optimize import linprog

    result = linprog(
        np.ones(len(kinds)),
        A_ub=-kinds.T,
        b_ub=-flat.demand.sum(axis=0),
        bounds=[(0.0, float(count)) for count in counts],
        method="highs",
    )
    return math.ceil(result.fun - 1e-6) if result.success and result.fun is not None else 0


def flat_bound(flat: Flat) -> int:
    """The best of all bounds here."""
    largest: FloatArray = flat.room.max(axis=0)
    if flat.demand[:, largest <= 0].any():
        return int(flat.room.shape[0]) + 1  # demand for a resource that no host has
    relative = flat.demand[:, largest > 0] / largest[largest > 0]
    mixtures = _mixtures(relative)
    bounds = [
        load_bound(flat.demand, flat.room),
        cover_bound(flat),
        clique_bound(relative),
        rounding_bound(np.column_stack(mixtures)),
        *(big_item_bound(sizes) for sizes in mixtures),
    ]
    return max(bounds)


def lower_bound(problem: Problem) -> int:
    """Return the minimum number of hosts of any schedule without overload.

    >>> lower_bound(Problem.from_arrays(np.full((5, 1, 1), 200.0), np.full((9, 1), 500.0)))
    3
    """
    return flat_bound(flatten(problem))
