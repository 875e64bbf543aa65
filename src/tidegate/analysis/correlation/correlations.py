"""Correlations of all pairs of metrics, with intervals and significance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.analysis.correlation import significance
from tidegate.analysis.correlation.coefficients import Coefficients, pearson, spearman
from tidegate.analysis.correlation.significance import Correction
from tidegate.history.metrictable import Floats, MetricTable

ALPHA = 0.05
Engine = Callable[[MetricTable], "Correlations"]


@dataclass(frozen=True, slots=True, eq=False)
class CorrelationMatrix:
    """One coefficient for every pair of metrics; NaN if undefined."""

    r: Floats
    n: Floats
    low: Floats
    high: Floats
    p: Floats
    p_adjusted: Floats
    effective_n: Floats | None
    """Effective number of independent samples; None if the order of the samples is not available (Spark)."""
    p_effective: Floats | None
    """Adjusted p-values with the effective samples."""

    @property
    def significant(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """By the adjusted p-value, treating all samples as independent."""
        return np.asarray(np.nan_to_num(self.p_adjusted, nan=1.0) < ALPHA)


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of the correlation table; None: undefined."""

    a: str
    b: str
    n: int
    pearson: float | None
    pearson_low: float | None
    pearson_high: float | None
    pearson_p: float | None
    pearson_p_adjusted: float | None
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    spearman_p: float | None
    spearman_p_adjusted: float | None
    significant: bool
    """Both coefficients, after the correction."""
    effective_n: float | None
    significant_effective: bool | None
    """The same with the effective number of samples, which allows for autocorrelation."""


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Both coefficients of all pairs."""

    names: tuple[str, ...]
    samples: int
    correction: Correction
    engine: str
    pearson: CorrelationMatrix
    spearman: CorrelationMatrix

    def pairs(self) -> Iterator[Pair]:
        """Every pair once, the strongest rank correlation first."""
        rows, columns = np.triu_indices(len(self.names), 1)
        strength = np.nan_to_num(np.abs(self.spearman.r[rows, columns]), nan=-1.0)
        for at in np.argsort(-strength, kind="stable"):
            yield self._pair(int(rows[at]), int(columns[at]))

    def _pair(self, i: int, j: int) -> Pair:
        linear, ranked = self.pearson, self.spearman
        effective = None if linear.effective_n is None else float(linear.effective_n[i, j])
        both_effective = None
        if linear.p_effective is not None and ranked.p_effective is not None:
            both_effective = _below(linear.p_effective[i, j]) and _below(ranked.p_effective[i, j])
        return Pair(
            a=self.names[i],
            b=self.names[j],
            n=int(linear.n[i, j]),
            pearson=_known(linear.r[i, j]),
            pearson_low=_known(linear.low[i, j]),
            pearson_high=_known(linear.high[i, j]),
            pearson_p=_known(linear.p[i, j]),
            pearson_p_adjusted=_known(linear.p_adjusted[i, j]),
            spearman=_known(ranked.r[i, j]),
            spearman_low=_known(ranked.low[i, j]),
            spearman_high=_known(ranked.high[i, j]),
            spearman_p=_known(ranked.p[i, j]),
            spearman_p_adjusted=_known(ranked.p_adjusted[i, j]),
            significant=bool(linear.significant[i, j] and ranked.significant[i, j]),
            effective_n=effective,
            significant_effective=both_effective,
        )


def correlate(table: MetricTable, correction: Correction = "bh") -> Correlations:
    """Correlate in memory, pairwise-complete, with the results of scipy's `pearsonr` and `spearmanr`."""
    linear, ranked = pearson(table.values), spearman(table.values)
    effective = None
    if len(table) > 3 and table.names:
        effective = significance.effective_samples(table.values, linear.n.astype(np.float64))
    return judge(Measured(table.names, len(table), linear, ranked, "memory"), correction, effective)


@dataclass(frozen=True, slots=True)
class Measured:
    """Coefficients of every pair of metrics, from any engine."""

    names: tuple[str, ...]
    samples: int
    linear: Coefficients
    ranked: Coefficients
    engine: str


def judge(measured: Measured, correction: Correction, effective: Floats | None = None) -> Correlations:
    """Add intervals and significance."""
    return Correlations(
        names=measured.names,
        samples=measured.samples,
        correction=correction,
        engine=measured.engine,
        pearson=_matrix(measured.linear, significance.pearson_interval, correction, effective),
        spearman=_matrix(measured.ranked, significance.spearman_interval, correction, effective),
    )


Interval = Callable[[Floats, Floats], tuple[Floats, Floats]]


def _matrix(
    found: Coefficients, interval: Interval, correction: Correction, effective: Floats | None
) -> CorrelationMatrix:
    n = found.n.astype(np.float64)
    low, high = interval(found.r, n)
    p = significance.p_values(found.r, n)
    p_effective = None
    if effective is not None:
        p_effective = significance.adjust(significance.p_values(found.r, effective), correction)
    return CorrelationMatrix(found.r, n, low, high, p, significance.adjust(p, correction), effective, p_effective)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _below(p: float) -> bool:
    return bool(np.isfinite(p) and p < ALPHA)
