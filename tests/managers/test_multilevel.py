"""The experiment's parts: the load it is given, the sizes it searches, and what it judges."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.adapters.sim.fleet_load import made_up_days, per_second, regional_shares
from tidegate.adapters.sim.fleet_loop import leave_alone
from tidegate.domain.errors import InvalidInput
from tidegate_lab.experiments import multilevel

SPEC = multilevel.fleet()


def test_the_total_is_what_the_regions_get() -> None:
    shares = regional_shares(86_400, 3, multilevel.WANDER)
    assert np.allclose(shares.sum(axis=0), 1)
    assert shares.min() == pytest.approx(0.1, abs=1e-3)
    assert (np.diff(np.argmax(shares, axis=1)) != 0).all()  # each has its own noon


def test_the_recorded_week_has_whole_days() -> None:
    trace = multilevel.find_trace()
    if trace is None:
        pytest.skip("the World Cup trace is not here: set TIDEGATE_DATA")
    minutes = multilevel.read_minutes(trace, multilevel.JUDGED_WEEK, multilevel.DAYS)
    assert len(minutes) == 5 * 1440
    assert minutes.min() > 0
    with pytest.raises(InvalidInput, match="minutes from"):
        multilevel.read_minutes(trace, multilevel.JUDGED_WEEK.replace(year=2001), 1)


def test_without_a_trace_days_are_made_up() -> None:
    minutes = made_up_days(2, np.random.default_rng(1))
    assert len(minutes) == 2880
    assert minutes.max() > 2 * minutes.min() > 0
    assert np.quantile(per_second(minutes, 1000.0), 0.995) == pytest.approx(1000, rel=0.05)


def test_the_static_size_is_the_smallest_that_keeps_the_objectives() -> None:
    rows = multilevel.load(SPEC, None, multilevel.JUDGED_WEEK, 1, np.random.default_rng(2))[:, 40_000:47_200]
    size = multilevel.static_size(SPEC, rows, lambda _: None)
    kept = size.plant(SPEC, rows)
    line = leave_alone(kept, rows.shape[1])
    assert max(kept.totals().violation_rates.values()) <= multilevel.ALLOWED
    outcome = multilevel.judge(kept, line, multilevel.most_replicas(SPEC))
    assert set(outcome.figures()) >= {
        "utilisation",
        "mean_s",
        "p99_s",
        "violation_rate",
        "host_hours",
        "reconfigurations",
        "downtime_s",
    }
