"""Factors: as many as were planted. Drivers: the planted cause comes first."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import FactorAnalysis

from tests.analysis.test_correlation import Array, table_of
from tidegate.analysis.collinear import collinear_groups
from tidegate.analysis.correlation import correlate
from tidegate.analysis.drivers import rank_drivers
from tidegate.analysis.factors import analyse_factors
from tidegate.analysis.prepare import NORMALISERS, prepare


def planted(rows: int = 500) -> Array:
    """Two hidden causes, four metrics each."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(rows, 2))
    return np.repeat(hidden, 4, axis=1) + 0.6 * rng.normal(size=(rows, 8))


def test_the_number_of_factors_is_found() -> None:
    values = planted()
    names = tuple(f"m{at}" for at in range(8))
    found = analyse_factors(names, np.corrcoef(values.T), len(values))
    assert found is not None
    assert found.count == 2
    assert found.kmo > 0.7
    assert found.bartlett_p < 1e-6
    strongest = np.abs(found.loadings).argmax(axis=1)
    assert len(set(strongest[:4])) == len(set(strongest[4:])) == 1
    assert strongest[0] != strongest[4]


def test_the_correlation_matrix_alone_gives_the_fit_of_the_data() -> None:
    values = planted()
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    model = FactorAnalysis(2, rotation="varimax", svd_method="lapack", max_iter=5000).fit(scaled)
    found = analyse_factors(tuple("abcdefgh"), np.corrcoef(values.T), len(values))
    assert found is not None
    assert found.communalities == pytest.approx((model.components_**2).sum(axis=0), abs=2e-3)


def test_noise_has_no_second_factor_and_few_metrics_none() -> None:
    noise = np.random.default_rng(5).normal(size=(300, 6))
    found = analyse_factors(tuple("abcdef"), np.corrcoef(noise.T), 300)
    assert found is not None
    assert found.count == 1
    assert analyse_factors(("a", "b"), np.eye(2), 300) is None
    assert analyse_factors(tuple("abc"), np.eye(3), 3) is None


def test_the_cause_is_ranked_above_its_shadow() -> None:
    rng = np.random.default_rng(7)
    load = rng.normal(size=400)
    shadow = load + rng.normal(size=400)  # follows the load, does nothing itself
    latency = load + 0.3 * rng.normal(size=400)
    values = np.column_stack([latency, load, 1.001 * load, shadow, rng.normal(size=400)])
    names = ("latency_p99_s", "input_rows_per_s", "rows", "gc_s", "spill_bytes")
    correlations = correlate(table_of(values, names))
    groups = collinear_groups(names, correlations.spearman.r)
    first, second, third = rank_drivers(correlations, groups, "latency_p99_s")
    assert {first.name, *first.stands_for} == {"input_rows_per_s", "rows"}
    assert (second.name, third.name, third.significant) == ("gc_s", "spill_bytes", False)
    assert abs(second.partial) < 0.3 < abs(first.partial)


def test_preparing_says_what_it_drops() -> None:
    values = np.column_stack([np.arange(10.0), np.ones(10), np.full(10, np.nan), [1] + [0] * 9])
    prepared = prepare(table_of(values, ("x", "one", "none", "warming")))
    assert prepared.table.names == ("x",)
    assert len(prepared.table) == 9  # the cold batch
    assert {dropped.name: dropped.why.value for dropped in prepared.dropped} == {
        "one": "constant",
        "none": "mostly missing",
        "warming": "constant",
    }


@pytest.mark.parametrize("name", NORMALISERS)
def test_normalising(name: str) -> None:
    values = np.array([[1.0, 5.0, np.nan], [2.0, 5.0, np.nan], [4.0, 5.0, np.nan], [np.nan, 5.0, np.nan]])
    found = NORMALISERS[name](values)
    assert np.isnan(found[3, 0])
    assert (found[:, 1] == 0).all()
    assert np.isnan(found[:, 2]).all()
    assert (np.diff(found[:3, 0]) > 0).all()
