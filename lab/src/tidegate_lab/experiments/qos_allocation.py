"""Q-Flink's dynamic programme for sharing a host that is too small, beside the product's exact solution.

max Σ I_S·(r_S − C*_S),  f_S ≤ r_S ≤ C*_S,  Σ r_S = R    (Q-Flink, equations 2–4)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.plan.classes.allocation import share_by_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def allocate(needs: ArrayLike, weights: ArrayLike, capacity: float, floors: ArrayLike = 0.0) -> Floats:
    """The exact solution. Applications of one weight that come up short share evenly, so most are served in full.

    >>> allocate([4.0, 4.0, 4.0], weights=[6, 3, 1], capacity=6.0).round(6).tolist()
    [4.0, 2.0, 0.0]
    >>> allocate([4.0, 4.0, 4.0], weights=[6, 3, 1], capacity=6.0, floors=0.4).round(1).tolist()
    [4.0, 1.6, 0.4]
    >>> allocate([1.0, 5.0, 9.0], weights=[1, 1, 1], capacity=7.0).round(6).tolist()
    [1.0, 3.0, 3.0]
    >>> allocate([1.0, 1.0], weights=[6, 1], capacity=6.0).tolist()  # nobody is given more than it needs
    [1.0, 1.0]
    """
    need, weight, floor = _problem(needs, weights, capacity, floors)
    levels, level = np.unique(-weight, return_inverse=True)
    return share_by_level(need, floor, level.astype(np.int64), len(levels), float(capacity))[0]


def bellman(needs: ArrayLike, weights: ArrayLike, capacity: float, floors: ArrayLike = 0.0, units: int = 200) -> Floats:
    """The paper's recursion, `V_w(R) = max_{0 ≤ r ≤ R} V_{w+1}(R − r) + C(r)`, with R cut into `units`.

    Needs and floors are rounded to units, so a grant may differ from the exact solution by up to a unit. It takes n ·
    units² steps, so the controller uses the exact solution.

    >>> bellman([4.0, 4.0, 4.0], weights=[6, 3, 1], capacity=6.0, units=60).round(1).tolist()
    [4.0, 2.0, 0.0]
    """
    need, weight, floor = _problem(needs, weights, capacity, floors)
    if units < 1:
        raise ValueError(f"capacity is cut into at least one unit, not {units}")
    unit = capacity / units
    if unit <= 0.0:
        return np.zeros_like(need)
    most = np.rint(need / unit).astype(np.int64)
    fits = min(1.0, capacity / max(float(floor.sum()), 1e-300))  # floors that do not fit are reduced proportionally
    least = np.minimum(np.floor(fits * floor / unit).astype(np.int64), most)
    return _recurse(most, least, weight, units) * unit


def _recurse(most: Ints, least: Ints, weight: Floats, units: int) -> Floats:
    """Backwards over the applications: the best grant of each, for every room that may be left."""
    count, room = len(most), np.arange(units + 1)
    value, choice = np.zeros(units + 1), np.zeros((count, units + 1), dtype=np.int64)
    for a in range(count - 1, -1, -1):
        best, taken = np.full(units + 1, -np.inf), np.zeros(units + 1, dtype=np.int64)
        # An application's minimum must be left for it: a smaller room has no solution.
        for grant in range(int(least[a]), min(int(most[a]), units) + 1):
            reward = np.full(units + 1, -np.inf)
            reward[grant:] = value[: units + 1 - grant] + weight[a] * (grant - most[a])
            better = reward > best
            best, taken = np.where(better, reward, best), np.where(better, grant, taken)
        value, choice[a] = best, np.minimum(taken, room)
    granted, left = np.zeros(count), units
    for a in range(count):
        granted[a] = choice[a, left]
        left -= int(choice[a, left])
    return granted


def value_of(granted: ArrayLike, needs: ArrayLike, weights: ArrayLike) -> float:
    """The objective `Σ I_S·(r_S − C*_S)`: 0 if every need is met, negative otherwise.

    >>> value_of([4.0, 2.0], [4.0, 4.0], [6.0, 3.0])
    -6.0
    """
    return float(np.sum(np.asarray(weights) * (np.asarray(granted) - np.asarray(needs))))


def _problem(needs: ArrayLike, weights: ArrayLike, capacity: float, floors: ArrayLike) -> tuple[Floats, Floats, Floats]:
    need = np.ascontiguousarray(needs, dtype=np.float64)
    weight = np.ascontiguousarray(weights, dtype=np.float64)
    floor = np.ascontiguousarray(np.minimum(np.asarray(floors, dtype=np.float64), need))
    if weight.shape != need.shape or need.ndim != 1:
        raise ValueError(f"one weight for each need is wanted, not {weight.shape} for {need.shape}")
    if not (np.isfinite(need).all() and (need >= 0).all() and (floor >= 0).all() and (weight > 0).all()):
        raise ValueError("needs and floors are finite and 0 or more, weights above 0")
    if not capacity >= 0:
        raise ValueError(f"capacity is 0 or more, not {capacity}")
    return need, weight, floor
