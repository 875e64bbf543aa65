"""Profiles: the planted cost comes back inside its interval, and the time of overload with it."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.analysis.capacity import profile
from tidegate.history.metrictable import MetricTable

ROW_S, BATCH_S, SLOTS = 0.004, 0.2, 4


def recorded(growth: float, seed: int, batches: int = 200) -> MetricTable:
    """A batch a second; the load grows by so many rows a second, every second."""
    rng = np.random.default_rng(seed)
    rate = 300 + growth * np.arange(batches)
    rows = rng.poisson(rate).astype(float)
    busy = (BATCH_S + ROW_S * rows) * (1 + 0.05 * rng.normal(size=batches))
    columns = {
        "rows": rows,
        "input_rows_per_s": rows,
        "slots": np.full(batches, float(SLOTS)),
        "overhead_s": np.full(batches, 0.2),
        "work.rows_in": rows,
        "work.busy_s": busy,
        "work.parallelism": np.full(batches, 8.0),
    }
    return MetricTable("a", tuple(columns), np.arange(1.0, batches + 1), np.column_stack(list(columns.values())))


def test_intervals_cover_the_truth() -> None:
    covered = 0
    for seed in range(40):
        (work,) = profile(recorded(1.0, seed)).operators
        covered += work.row_s_low <= ROW_S <= work.row_s_high
    assert covered >= 34  # 38 are expected


def test_sustainable_rate_and_time_to_exceed() -> None:
    found = profile(recorded(1.0, 1))
    (work,) = found.operators
    assert work.sustainable_rows_per_s == pytest.approx((SLOTS - BATCH_S) / ROW_S, rel=0.05)
    limit = (SLOTS * 0.8 - BATCH_S) / ROW_S  # 750 rows/s: a fifth of every second is overhead
    assert found.sustainable_rows_per_s == pytest.approx(limit, rel=0.05)
    assert found.bottleneck == "work"
    assert found.trend is not None
    assert found.trend.growing
    assert found.exceeded_in_s == pytest.approx(limit - 499, rel=0.15)
    assert found.exceeded_in_low_s is not None
    assert found.exceeded_in_high_s is not None
    assert found.exceeded_in_low_s <= found.exceeded_in_s <= found.exceeded_in_high_s


def test_a_steady_load_is_not_said_to_grow() -> None:
    alarms = [profile(recorded(0.0, seed)).exceeded_in_s for seed in range(20)]
    assert sum(alarm is not None and alarm < 3600 for alarm in alarms) <= 1


def test_what_is_not_recorded_is_not_profiled() -> None:
    empty = profile(MetricTable("a", ("rows",), np.arange(9.0), np.ones((9, 1))))
    assert (empty.operators, empty.bottleneck, empty.sustainable_rows_per_s, empty.exceeded_in_s) == (
        (),
        None,
        None,
        None,
    )
