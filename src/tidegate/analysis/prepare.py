"""Prepares a table for statistics: drops metrics that cannot be correlated, with the reason, and normalises the
rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidegate.domain.python310 import StrEnum
from tidegate.history.metrictable import Floats, MetricTable

LEAST_PRESENT = 0.5  # minimum share of samples in which a metric must be present
LEAST_SAMPLES = 4  # a Fisher interval needs n > 3


class Why(StrEnum):
    """Why a metric was dropped."""

    CONSTANT = "constant"
    MISSING = "mostly missing"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A metric that was dropped."""

    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table whose columns all vary and are mostly present, and the dropped metrics."""

    table: MetricTable
    dropped: tuple[Dropped, ...]


def prepare(table: MetricTable, least_present: float = LEAST_PRESENT) -> Prepared:
    """Drop constant and mostly missing columns, and cold batches, whose times do not reflect the load.

    >>> table = MetricTable("a", ("x", "one"), np.arange(5.0), np.column_stack([np.arange(5.0), np.ones(5)]))
    >>> prepare(table).dropped
    (Dropped(name='one', why=<Why.CONSTANT: 'constant'>),)
    """
    warm = without_cold_batches(table)
    kept, dropped = [], []
    for name, column in zip(warm.names, warm.values.T, strict=True):
        present = column[np.isfinite(column)]
        if len(present) < max(LEAST_SAMPLES, least_present * len(warm)):
            dropped.append(Dropped(name, Why.MISSING))
        elif present.min() == present.max():
            dropped.append(Dropped(name, Why.CONSTANT))
        else:
            kept.append(name)
    return Prepared(warm.select(kept), tuple(dropped))


def without_cold_batches(table: MetricTable) -> MetricTable:
    """Return the samples that did not run on cold processes."""
    if "warming" not in table.names:
        return table
    warm = ~(table.column("warming") == 1.0)
    return MetricTable(table.application, table.names, table.times_s[warm], table.values[warm], table.batch_ids[warm])


def z_scores(values: Floats) -> Floats:
    """`(x − mean) ÷ standard deviation` by column, over the present values; a constant column becomes 0."""
    return _scaled(values - _by_column(np.nanmean, values), _by_column(np.nanstd, values))


def robust_scores(values: Floats) -> Floats:
    """`(x − median) ÷ (1.4826 · MAD)`: like z-scores for normal data, but robust to outliers."""
    centred = values - _by_column(np.nanmedian, values)
    return _scaled(centred, 1.4826 * _by_column(np.nanmedian, np.abs(centred)))


def unit_scores(values: Floats) -> Floats:
    """`(x − min) ÷ (max − min)` by column: from 0 to 1."""
    low = _by_column(np.nanmin, values)
    return _scaled(values - low, _by_column(np.nanmax, values) - low)


NORMALISERS: dict[str, Callable[[Floats], Floats]] = {"z": z_scores, "robust": robust_scores, "unit": unit_scores}


def _by_column(reduce: Callable[..., Floats], values: Floats) -> Floats:
    """Return a statistic of every column; 0 if the column is empty."""
    present = np.isfinite(values).any(axis=0)
    found = np.zeros(values.shape[1])
    if present.any():
        found[present] = reduce(values[:, present], axis=0)
    return found


def _scaled(centred: Floats, scale: Floats) -> Floats:
    varies = scale > 0
    return np.asarray(
        np.where(varies, centred / np.where(varies, scale, 1.0), np.where(np.isnan(centred), np.nan, 0.0))
    )
