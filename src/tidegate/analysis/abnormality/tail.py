"""How far out in the tail a number lies, judged by a bounded, sorted history: written by hand to run inside a kernel.

Inside the history the probability is its rank. Beyond the outermost `TAIL_SHARE` it follows the peaks-over-threshold
model (Pickands 1975; Siffer et al. 2017): excesses over the threshold u are generalised Pareto,

    P(X > x) = k/n · (1 + ξ (x − u) / σ)^(−1/ξ),   surprise = −ln P

with σ from the mean excess and a fixed shape ξ: the shape cannot be told from a hundred excesses, and ξ > 0 keeps the
surprise of heavy-tailed series within bounds.
"""

from __future__ import annotations

import numpy as np

from tidegate.analysis.abnormality.jit import Floats, kernel

TAIL_SHARE = 0.03
SHAPE = 0.25
FEWEST_EXCESSES = 4
RESOLUTION = 0.05
"""A mean excess below this share of the history's spread is taken for it: no finer scale is worth an alarm."""
MOST_SURPRISE = 100.0


@kernel
def numbers_below(ordered: Floats, value: float) -> int:
    """How many numbers of a sorted array are smaller: np.searchsorted takes several times as long to compile."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def numbers_up_to(ordered: Floats, value: float) -> int:
    """How many numbers of a sorted array are not larger."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def spread(ordered: Floats, level: float) -> float:
    """Width of the bulk of a sorted history; of all of it, or the level's own size, where that is nil."""
    last = len(ordered) - 1
    margin = int(0.05 * last)
    width = ordered[last - margin] - ordered[margin]
    if width <= 0.0:
        width = ordered[last] - ordered[0]
    if width <= 0.0:
        width = abs(level)
    return float(width) if width > 0.0 else 1.0


@kernel
def surprise(ordered: Floats, value: float, finest: float) -> float:
    """−ln of the probability of a number as far out as `value`, on its side of a sorted history."""
    count = len(ordered)
    excesses = max(FEWEST_EXCESSES, int(TAIL_SHARE * count))
    at_least = count - numbers_below(ordered, value)
    at_most = numbers_up_to(ordered, value)
    as_far_out = min(at_least, at_most)
    if as_far_out >= excesses:
        return float(-np.log((as_far_out + 1.0) / (count + 1.0)))
    high = at_least < at_most
    first = count - excesses if high else 0
    threshold = ordered[first] if high else ordered[excesses - 1]
    excess = 0.0
    for rank in range(first, first + excesses):
        excess += abs(ordered[rank] - threshold)
    # A generalised Pareto of shape ξ has the mean excess σ / (1 − ξ).
    scale = (1.0 - SHAPE) * max(excess / excesses, finest)
    beyond = np.log1p(SHAPE * abs(value - threshold) / scale) / SHAPE
    return float(min(MOST_SURPRISE, np.log((count + 1.0) / (excesses + 1.0)) + beyond))


@kernel
def replace_sorted(ordered: Floats, old: float, new: float) -> None:
    """Take `old` out of a sorted array and put `new` in, moving only what lies between."""
    gap = numbers_below(ordered, old)
    place = numbers_below(ordered, new)
    if place > gap:
        place -= 1  # the numbers between move down into the gap
        for at in range(gap, place):
            ordered[at] = ordered[at + 1]
    else:
        for at in range(gap, place, -1):
            ordered[at] = ordered[at - 1]
    ordered[place] = new


@kernel
def insert_sorted(ordered: Floats, count: int, new: float) -> None:
    """Put `new` among the first `count` numbers, which are sorted; the array has room for it."""
    place = numbers_below(ordered[:count], new)
    for at in range(count, place, -1):
        ordered[at] = ordered[at - 1]
    ordered[place] = new
