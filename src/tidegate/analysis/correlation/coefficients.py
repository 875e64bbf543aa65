"""Pearson and Spearman coefficients of all pairs of columns, over the samples that both columns have.

The libraries offer only one of: all pairs at once (numpy), missing values (pandas, without counts), or ranks over
exactly the pair's samples (scipy, one pair at a time). Here, columns that miss the same samples are computed together.
Every pair gives the same result as scipy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from tidegate.history.metrictable import Floats

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Metrics × metrics: coefficients and their numbers of samples. NaN means undefined (too few samples, or
    constant)."""

    r: Floats
    n: Counts


def pearson(values: Floats) -> Coefficients:
    """Pearson's r of every pair of columns.

    >>> found = pearson(np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 7.0], [np.nan, 0.0]]))
    >>> round(float(found.r[0, 1]), 6), int(found.n[0, 1])
    (0.993399, 3)
    """
    return _by_mask(values, lambda complete: complete)


def spearman(values: Floats) -> Coefficients:
    """Spearman's ρ: Pearson's r of the ranks, ties sharing their mean rank.

    >>> found = spearman(np.array([[1.0, 1.0], [2.0, 4.0], [3.0, 9.0], [4.0, 16.0]]))
    >>> float(found.r[0, 1])
    1.0
    """
    return _by_mask(values, lambda complete: np.asarray(rankdata(complete, axis=0), dtype=np.float64))


def _by_mask(values: Floats, transform: Callable[[Floats], Floats]) -> Coefficients:
    metrics = values.shape[1]
    present = np.isfinite(values)
    masks, group = np.unique(present, axis=1, return_inverse=True)
    group = group.reshape(-1)  # numpy 2.0 gave it a second axis
    r, n = np.full((metrics, metrics), np.nan), np.zeros((metrics, metrics), dtype=np.int64)
    for first in range(masks.shape[1]):
        for second in range(first, masks.shape[1]):
            left, right = np.flatnonzero(group == first), np.flatnonzero(group == second)
            rows = masks[:, first] & masks[:, second]
            count = int(rows.sum())
            block = np.full((len(left), len(right)), np.nan)
            if count > 1:
                units_left = unit_columns(transform(values[np.ix_(rows, left)]))
                same = first == second
                units_right = units_left if same else unit_columns(transform(values[np.ix_(rows, right)]))
                block = np.clip(units_left.T @ units_right, -1.0, 1.0)
            r[np.ix_(left, right)], r[np.ix_(right, left)] = block, block.T
            n[np.ix_(left, right)], n[np.ix_(right, left)] = count, count
    known = np.isfinite(np.diag(r))
    np.fill_diagonal(r, np.where(known, 1.0, np.nan))
    return Coefficients(r, n)


def unit_columns(values: Floats) -> Floats:
    """Return centred columns of length 1, so that their products are correlations; NaN if a column is constant."""
    centred = values - values.mean(axis=0)
    # Scaled before squaring: very large or tiny metrics must not overflow.
    largest = np.abs(centred).max(axis=0)
    constant = values.max(axis=0) == values.min(axis=0)
    centred = centred / np.where(largest > 0, largest, 1.0)
    length = np.sqrt((centred**2).sum(axis=0))
    return np.asarray(np.where(constant, np.nan, centred / np.where(length > 0, length, 1.0)))
