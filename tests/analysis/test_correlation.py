"""Correlations: scipy's numbers for every pair, whatever is missing; honest significance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tidegate.analysis.collinear import collinear_groups
from tidegate.analysis.correlation import adjust, correlate, effective_samples
from tidegate.history.metrictable import MetricTable

Array = np.ndarray[Any, np.dtype[np.float64]]


def table_of(values: Array, names: tuple[str, ...] | None = None) -> MetricTable:
    return MetricTable(
        "a", names or tuple(f"m{at}" for at in range(values.shape[1])), np.arange(float(len(values))), values
    )


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(5, 60), st.floats(0, 0.4), st.booleans())
def test_equal_to_scipy(seed: int, rows: int, missing: float, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 4)) @ rng.normal(size=(4, 4))
    values[:, 1] = 1e8 + values[:, 1] ** 3
    if ties:
        values = np.round(values)
    values[rng.random(values.shape) < missing] = np.nan
    found = correlate(table_of(values), "none")
    for i in range(4):
        for j in range(i + 1, 4):
            both = np.isfinite(values[:, i]) & np.isfinite(values[:, j])
            x, y = values[both, i], values[both, j]
            if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
                continue
            linear, ranked = stats.pearsonr(x, y), stats.spearmanr(x, y)
            assert found.pearson.r[i, j] == pytest.approx(linear.statistic, abs=1e-12)
            assert found.pearson.p[i, j] == pytest.approx(linear.pvalue, abs=1e-9)
            assert found.spearman.r[i, j] == pytest.approx(ranked.statistic, abs=1e-12)
            assert found.spearman.p[i, j] == pytest.approx(ranked.pvalue, abs=1e-9)
            if abs(linear.statistic) < 1 - 1e-9:
                low, high = linear.confidence_interval(0.95)
                assert (found.pearson.low[i, j], found.pearson.high[i, j]) == pytest.approx((low, high), abs=1e-9)


def test_constant_missing_and_too_few_are_undefined() -> None:
    values = np.column_stack([np.arange(6.0), np.ones(6), np.full(6, np.nan), [1, 2, np.nan, np.nan, np.nan, np.nan]])
    pairs = {(pair.a, pair.b): pair for pair in correlate(table_of(values)).pairs()}
    assert pairs["m0", "m1"].pearson is None
    assert pairs["m0", "m2"].spearman is None
    assert pairs["m0", "m3"].pearson_low is None
    assert not any(pair.significant for pair in pairs.values())


@settings(max_examples=20)
@given(st.lists(st.floats(1e-12, 1), min_size=3, max_size=3))
def test_corrections(p: list[float]) -> None:
    matrix = np.zeros((3, 3))
    matrix[0, 1], matrix[0, 2], matrix[1, 2] = p
    matrix = matrix + matrix.T
    holm, bh = (adjust(matrix, method)[np.triu_indices(3, 1)] for method in ("holm", "bh"))
    assert (np.array(p) <= bh + 1e-15).all()
    assert (bh <= holm + 1e-15).all()
    assert holm.max() <= 1
    assert min(holm) == pytest.approx(min(1.0, 3 * min(p)))


def test_false_findings_stay_rare_and_autocorrelation_is_seen() -> None:
    rng = np.random.default_rng(1)
    walks = np.cumsum(rng.normal(size=(400, 8)), axis=0)  # independent, and every naive test calls them related
    noise = rng.normal(size=(400, 8))
    naive = [pair.significant for pair in correlate(table_of(walks)).pairs()]
    honest = [pair.significant_effective for pair in correlate(table_of(walks)).pairs()]
    assert np.mean(naive) > 0.6
    assert np.mean(honest) < 0.15
    assert not any(pair.significant for pair in correlate(table_of(noise)).pairs())
    n = np.full((8, 8), 400.0)
    assert np.diag(effective_samples(noise, n)).min() > 200
    assert np.diag(effective_samples(walks, n)).max() < 60


def test_collinear_metrics_are_grouped() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 200))
    values = np.column_stack([x, 2 * x + 1e-3 * y, -x, y])
    groups = collinear_groups(("x", "twice", "minus", "y"), correlate(table_of(values)).spearman.r)
    assert sorted(sorted(group.members) for group in groups) == [["minus", "twice", "x"], ["y"]]
