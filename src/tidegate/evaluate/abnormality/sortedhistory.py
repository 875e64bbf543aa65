"""How far out in the tail a number lies, judged by a bounded, sorted history. Written by hand to run in a kernel.

Inside the history the probability is its rank. Beyond the outermost `TAIL_SHARE` it follows the peaks-over-threshold
model (Pickands 1975; Siffer et al. 2017): excesses over the threshold u are generalised Pareto,

    P(X > x) = k/n · (1 + ξ (x − u) / σ)^(−1/ξ),   surprise = −ln P

with σ from the mean excess and a fixed shape ξ: a hundred excesses do not determine the shape, and ξ > 0 bounds the
surprise of heavy-tailed series.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.accelerate import kernel
from tidegate.evaluate.abnormality.detector import Floats

TAIL_SHARE = 0.03
SHAPE = 0.25
FEWEST_EXCESSES = 4
RESOLUTION = 0.05
"""Minimum mean excess, as a share of the history's spread: no finer scale is worth an alarm."""
MOST_SURPRISE = 100.0


@kernel
def numbers_below(ordered: Floats, value: float) -> int:
    """How many numbers of a sorted array are smaller. np.searchsorted takes several times as long to compile."""
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
def ordered_sum(numbers: Floats) -> float:
    """Sum from first to last. `sum` adds in another order, which differs between platforms."""
    return float(np.cumsum(numbers)[-1])


@kernel
def spread(ordered: Floats, level: float) -> float:
    """Width of the bulk of a sorted history. If that is zero, of all of it, or the size of the level."""
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
        return -math.log((as_far_out + 1.0) / (count + 1.0))
    high = at_least < at_most
    first = count - excesses if high else 0
    threshold = ordered[first] if high else ordered[excesses - 1]
    excess = ordered_sum(np.abs(ordered[first : first + excesses] - threshold))
    # A generalised Pareto of shape ξ has the mean excess σ / (1 − ξ).
    scale = (1.0 - SHAPE) * max(excess / excesses, finest)
    beyond = math.log1p(SHAPE * abs(value - threshold) / scale) / SHAPE
    return float(min(MOST_SURPRISE, math.log((count + 1.0) / (excesses + 1.0)) + beyond))


@kernel
def replace_sorted(ordered: Floats, old: float, new: float) -> None:
    """Replace `old` by `new` in a sorted array, moving only the numbers between them."""
    gap = numbers_below(ordered, old)
    place = numbers_below(ordered, new)
    if place > gap:
        place -= 1  # the numbers between move down into the gap
        ordered[gap:place] = ordered[gap + 1 : place + 1].copy()
    else:
        ordered[place + 1 : gap + 1] = ordered[place:gap].copy()
    ordered[place] = new


@kernel
def insert_sorted(ordered: Floats, count: int, new: float) -> None:
    """Insert `new` among the first `count` numbers, which are sorted. The array has room for it."""
    place = numbers_below(ordered[:count], new)
    ordered[place + 1 : count + 1] = ordered[place:count].copy()
    ordered[place] = new
