"""Correlations on Spark: the same numbers as in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tidegate.adapters.spark import correlations as engine
from tidegate.analysis.correlation import correlate
from tidegate.history.metrictable import MetricTable


def _values(rows: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=(rows, 2))
    values = hidden @ rng.normal(size=(2, 6)) + rng.normal(size=(rows, 6))
    values[:, 0] = 1e9 + 1e-3 * values[:, 0]  # large mean, small spread
    values[:, 1] = np.exp(3 * values[:, 1])  # heavy tail
    values[:, 2] = np.round(values[:, 2])  # many ties
    values[rng.random(rows) < 0.1, 3] = np.nan
    values[rng.random(rows) < 0.2, 4] = np.nan
    return values


@pytest.mark.parametrize(("exact_rows", "rank_tolerance"), [(50_000, 1e-9), (100, 1e-4)])
def test_spark_and_memory_agree(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, exact_rows: int, rank_tolerance: float
) -> None:
    monkeypatch.setattr(engine, "EXACT_ROWS", exact_rows)
    monkeypatch.setattr(engine, "BINS", 512)
    values = _values(4000)
    names = tuple(f"m.{at}" for at in range(6))
    frame = spark.createDataFrame(pd.DataFrame(values, columns=list(names)).replace({np.nan: None}))
    found = engine.correlate_frame(frame, names)
    known = correlate(MetricTable("a", names, np.arange(4000.0), values))
    assert np.array_equal(found.pearson.n, known.pearson.n)
    assert np.allclose(found.pearson.r, known.pearson.r, atol=1e-9)
    assert np.allclose(found.spearman.r, known.spearman.r, atol=rank_tolerance)
    assert np.allclose(found.pearson.low, known.pearson.low, atol=1e-8)
    assert np.allclose(found.pearson.p_adjusted, known.pearson.p_adjusted, atol=1e-8)
