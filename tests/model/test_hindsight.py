"""Recorded arrivals, played again for pools that never fall below a size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.hindsight import Floats, FollowingPool, late_by_floor

FLOORS = np.arange(2.0, 18.0, 2.0)
LOADS = st.lists(st.floats(0.0, 16.0), min_size=1, max_size=80).map(np.array)


def late(work: Floats, lead_s: float = 30.0, slack_s: float = 14.0) -> list[float]:
    """Share of the work that is late, by floor."""
    needed = np.ceil(work / 0.85)
    found = late_by_floor(work, 5.0, FLOORS, FollowingPool(needed, lead_s, stays_s=90.0), slack_s)
    return [float(share) for share in found @ work / max(work.sum(), 1e-9)]


def bursts(height: float, lasts: int) -> Floats:
    return np.tile(np.concatenate((np.full(60 - lasts, 1.0), np.full(lasts, height))), 4)


def test_a_slow_swing_needs_no_floor() -> None:
    steps = np.arange(720)
    assert max(late(4.0 + 3.0 * np.sin(2 * np.pi * steps / 360))) == 0.0


def test_a_burst_that_is_over_before_an_executor_starts_needs_one() -> None:
    shares = late(bursts(12.0, lasts=3))
    assert shares[0] > 0.3
    assert shares[-1] == 0.0


def test_executors_that_start_at_once_need_no_floor() -> None:
    assert late(bursts(12.0, lasts=3), lead_s=0.0)[0] == 0.0


def test_rows_that_may_wait_for_executors_need_no_floor() -> None:
    assert late(bursts(12.0, lasts=3), slack_s=300.0)[0] == 0.0


def test_what_arrived_a_moment_ago_is_not_judged_yet() -> None:
    assert late(np.array([1.0] * 20 + [16.0]))[0] == 0.0


@given(LOADS)
def test_more_executors_are_never_late_more_often(work: Floats) -> None:
    shares = late(work)
    assert all(more <= fewer + 1e-9 for fewer, more in pairwise(shares))


@given(LOADS, st.floats(0.0, 60.0), st.floats(0.0, 60.0))
def test_a_longer_objective_is_never_missed_more_often(work: Floats, slack_s: float, more_s: float) -> None:
    for long, short in zip(late(work, slack_s=slack_s + more_s), late(work, slack_s=slack_s), strict=True):
        assert long <= short + 1e-9


def test_a_pool_as_large_as_the_peak_is_never_late() -> None:
    assert late(bursts(16.0, lasts=10))[-1] == pytest.approx(0.0)
