"""Sharing a host that is too small: `max Σ I_S·(r_S − C*_S)`, `f_S ≤ r_S ≤ C*_S`, `Σ r_S = R` (Q-Flink, equations 2–4).

The objective is linear, so serving the heaviest first is exact. A property test compares it with the paper's dynamic
programme over a discretised R, which is in the laboratory. The floors f are our addition: without them the lightest
class gets nothing while any heavier class wants more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[Floats, Floats]

_HALVINGS = 40
"""Bisections of the interval for an even share: precise to a part in 10¹²."""


def share_by_level(need: Floats, floor: Floats, level: Ints, levels: int, capacity: float) -> Pair:
    """Floors first, then one level after another (0 first). The level that comes up short shares evenly.

    Evenly means `r = max(f, min(C*, u))` with one u for all: as many as possible are served in full. Returns the grants
    and the entitlements. In the level that shares, the entitlement is u even for those that need less.

    >>> granted, entitled = share_by_level(np.array([1.0, 5.0, 9.0]), np.zeros(3), np.array([0, 1, 1]), 2, 7.0)
    >>> granted.round(6).tolist()
    [1.0, 3.0, 3.0]
    """
    granted = np.minimum(floor, need)
    floors = float(granted.sum())
    if floors > capacity:
        granted = granted * (capacity / floors)
        return granted, granted.copy()
    open_need = np.bincount(level, need - granted, levels)
    left, short = capacity - floors, 0
    while short < levels and open_need[short] <= left:
        left -= float(open_need[short])
        short += 1
    mine = level == short
    even = _even_share(need[mine], granted[mine], left) if short < levels else 0.0
    entitled = np.where(level < short, need, np.where(mine, np.maximum(granted, even), granted))
    return np.minimum(need, entitled), entitled


def _even_share(need: Floats, floor: Floats, left: float) -> float:
    """The u with `Σ max(f, min(C*, u)) = Σ f + left`, by bisection."""
    low, high = 0.0, float(need.max(initial=0.0))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        taken = float(np.maximum(0.0, np.minimum(need, middle) - floor).sum())
        low, high = (low, middle) if taken > left else (middle, high)
    return low
