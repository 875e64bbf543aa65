"""Profiles of classes: late rows, windows, incidents, and a memory that stays small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain import LatencySample
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.serviceclasses import QosClass
from tidegate.evaluate.lateness import late_share
from tidegate.evaluate.violations import ClassCounts, ClassProfile, record, report, window_share

RULE = QosClass(latency_s=1.0, violations=0.05, window_s=60, weight=6)
GOOD = ClassCounts(rows=100, late_rows=0, worst_p99_s=0.8)
BAD = ClassCounts(rows=100, late_rows=60, worst_p99_s=1.8)


def test_an_incident_is_a_window_that_goes_over_its_bound() -> None:
    profile = ClassProfile()
    for second in range(0, 60, 5):
        record(profile, second, GOOD, RULE)
    assert profile.incidents == 0
    record(profile, 61.0, BAD, RULE)
    record(profile, 62.0, BAD, RULE)
    assert profile.incidents == 1
    assert profile.last_incident_s in (61.0, 62.0)
    for second in range(65, 185, 5):
        record(profile, second, GOOD, RULE)
    assert not profile.over
    assert window_share(profile) == 0.0
    record(profile, 190.0, BAD, RULE)
    assert profile.incidents == 2


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1e5), st.booleans()), max_size=60))
def test_memory_is_bounded_and_totals_are_kept(batches: list[tuple[float, bool]]) -> None:
    profile = ClassProfile()
    for time_s, bad in batches:
        record(profile, time_s, BAD if bad else GOOD, RULE)
    assert len(profile.buckets) <= 12
    assert profile.rows == 100 * len(batches)
    assert 0 <= profile.late_rows <= profile.rows
    assert 0 <= window_share(profile) <= 1


@settings(max_examples=40)
@given(st.lists(st.floats(0.001, 100), min_size=4, max_size=4), st.floats(0, 120))
def test_late_shares_lie_between_the_quantiles(values: list[float], bound_s: float) -> None:
    p50, p90, p99, most = sorted(values)
    share = late_share(LatencySample(10, p50, p90, p99, most), bound_s)
    assert 0 <= share <= 1
    for quantile_s, beyond in ((p50, 0.5), (p90, 0.1), (p99, 0.01), (most, 0.0)):
        if bound_s >= quantile_s:
            assert share <= beyond + 1e-9
        else:
            assert share >= beyond - 1e-9


def test_estimates_are_near_what_rows_say() -> None:
    latencies = np.random.default_rng(1).gamma(2.0, 0.3, 20_000)
    sample = LatencySample(20_000, *np.quantile(latencies, [0.5, 0.9, 0.99]).tolist(), latencies.max())
    assert late_share(sample, 1.0) == pytest.approx((latencies > 1.0).mean(), abs=0.03)


def test_the_report_has_the_most_important_class_first_and_reads_back() -> None:
    profiles = {"low": ClassProfile(), "high": ClassProfile(), "unseen": ClassProfile()}
    record(profiles["low"], 1.0, GOOD, QosClass(weight=RULE.weight / 2))
    record(profiles["high"], 1.0, BAD, RULE)
    reports = report(profiles)
    assert [each.name for each in reports] == ["high", "low"]
    assert reports[0].late_share == 0.6
    assert reports[0].worst_p99_s == 1.8
    assert not reports[0].kept
    assert reports[1].kept
    assert from_json(ClassProfile, to_json(profiles["high"])) == profiles["high"]
