"""Latency distributions made of stretches of rows: ages spread evenly between two bounds, with noise around them.

For a stretch of `r` rows with ages spread evenly between l and h and logistic noise of scale b (standard deviation σ =
bπ/√3), the rows above a bound L are `r · b/(h − l) · [ln(1 + e^((h−L)/b)) − ln(1 + e^((l−L)/b))]`: smooth in
everything.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BINS = 64
_LEAST_WIDTH_S = 1e-6
_LEAST_NOISE_S = 1e-4


def rows_over(bound_s: float, rows: Floats, low_s: Floats, high_s: Floats, deviation_s: Floats) -> Floats:
    """Expected rows above the bound, summed over the first axis (the stretches).

    >>> stretch = np.array([100.0]), np.array([1.0]), np.array([2.0])
    >>> [rows_over(bound_s, *stretch, np.array([0.0])).round(1).item() for bound_s in (0.5, 1.25, 3.0)]
    [100.0, 75.0, 0.0]
    """
    scale = np.maximum(deviation_s, _LEAST_NOISE_S) * (sqrt(3) / pi)
    width = np.maximum(high_s - low_s, _LEAST_WIDTH_S)
    over = _softplus((low_s + width - bound_s) / scale)
    over -= _softplus((low_s - bound_s) / scale)
    over *= scale / width
    summed: Floats = np.einsum("k...,k...->...", rows, np.minimum(over, 1.0))
    return summed


def _softplus(x: Floats) -> Floats:
    """ln(1 + eˣ), without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def quantiles(
    shares: tuple[float, ...], rows: Floats, low_s: Floats, high_s: Floats, deviation_s: Floats
) -> tuple[Floats, ...]:
    """Latencies that these shares of the rows do not exceed. Takes stretches by columns, returns an array per share.

    Noise widens a stretch to an even one of the same variance, `w² = (h − l)² + 12σ²`. The distribution function is
    exact at 64 points between the smallest and the largest age, and linear between them. It is 0 for a column without
    rows. If the noise exceeds the stretch, the far tail comes out short: 1.7σ instead of 2.5σ at 99 %.

    >>> one = np.array([[100.0]]), np.array([[1.0]]), np.array([[2.0]]), np.array([[0.0]])
    >>> [round(found.item(), 2) for found in quantiles((0.5, 0.99), *one)]
    [1.5, 1.99]
    """
    middle = (low_s + high_s) / 2
    half = np.sqrt((high_s - low_s) ** 2 + 12 * deviation_s**2) / 2
    counted = rows > 0
    least = np.min(np.where(counted, middle - half, np.inf), axis=0)
    most = np.max(np.where(counted, middle + half, -np.inf), axis=0)
    filled = most > -np.inf
    least, most = np.where(filled, least, 0.0), np.where(filled, most, 0.0)
    bin_s = np.maximum(most - least, _LEAST_WIDTH_S) / (_BINS - 4)
    least = least - bin_s  # room for narrow stretches at the edge, which are widened below
    # A box of height r/w begins at `low` and ends at `high`. Two cumulative sums turn its edges into its distribution
    # function. This is exact at the grid points if an edge between two points is split between both.
    half = np.maximum(half, bin_s / 8)
    height = rows * (bin_s / (2 * half))
    columns = rows.shape[1]
    places = np.concatenate((middle - half, middle + half)) - least
    places /= bin_s
    np.clip(places, 0.0, _BINS - 1.001, out=places)
    cells = places.astype(np.int64)
    part = places - cells
    cells += np.arange(columns) * (_BINS + 1)
    weights = np.concatenate((height, -height))
    flat = cells.ravel()
    size = columns * (_BINS + 1)
    edges: Floats = np.bincount(flat, (weights * (1 - part)).ravel(), size).astype(np.float64, copy=False)
    edges += np.bincount(flat + 1, (weights * part).ravel(), size)[:size]
    reached = np.cumsum(np.cumsum(edges.reshape(columns, -1), axis=1), axis=1)
    # the second sum goes by whole bins: a box that begins at a point contributes nothing there yet
    reached = np.concatenate((np.zeros((columns, 1)), reached[:, :-1]), axis=1)
    total = rows.sum(axis=0)
    return tuple(np.where(filled, _crossing(reached, share * total, least, bin_s), 0.0) for share in shares)


def _crossing(reached: Floats, wanted: Floats, least: Floats, bin_s: Floats) -> Floats:
    at = np.clip(np.argmax(reached >= wanted[:, None] * (1 - 1e-12), axis=1), 1, None)
    column = np.arange(len(reached))
    below, above = reached[column, at - 1], reached[column, at]
    part = (wanted - below) / np.maximum(above - below, 1e-300)
    crossed: Floats = least + (at - 1 + np.clip(part, 0.0, 1.0)) * bin_s
    return crossed
