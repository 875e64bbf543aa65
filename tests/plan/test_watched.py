"""How long a size was enough, and how often it was not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.plan.watched import Watched


def _watched(*sizes: int, every_s: float = 15.0) -> Watched:
    watched = Watched()
    for look, size in enumerate(sizes):
        watched.note(every_s * look, size)
    return watched


def test_a_size_in_the_noise_returns_and_one_above_it_does_not() -> None:
    watched = _watched(*([3] * 6 + [5] * 2) * 5)
    assert [watched.returns(size) for size in (2, 3, 4, 5, 6)] == [0, 5, 5, 0, 0]


def test_a_load_that_only_falls_leaves_no_returns() -> None:
    watched = _watched(*(size for size in range(9, 1, -1) for _ in range(6)))
    assert not watched.returned


def test_a_short_dip_is_no_return() -> None:
    """It was not enough for long enough to tempt anybody."""
    assert not _watched(5, 5, 5, 3, 5).returned


def test_what_clears_a_backlog_says_nothing_against_smaller_sizes() -> None:
    """Two executors fell behind a load that four carry; sixteen would clear the queue."""
    watched = _watched(2, 2, 2, 2)
    watched.note(60.0, 16, lasting=4)
    assert [watched.returns(size) for size in (2, 3, 4, 8)] == [1, 1, 0, 0]


def test_returns_are_forgotten_after_an_hour() -> None:
    watched = _watched(*([3] * 6 + [5] * 2) * 2)
    assert watched.returns(3) == 2
    for look in range(16, 16 + 241):
        watched.note(15.0 * look, 5)
    assert watched.returns(3) == 0


def test_a_gap_is_no_evidence_of_little_load() -> None:
    watched = _watched(4, 2, 2, 2)
    watched.note(400.0, 2)
    assert watched.enough_for_s(2) == 0.0


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.integers(0, 13))
def test_it_knows_what_the_whole_history_says(sizes: list[int], size: int) -> None:
    watched = _watched(*sizes)
    end_s = 15.0 * (len(sizes) - 1)
    above = [15.0 * look for look, wanted in enumerate(sizes) if wanted > size]
    assert watched.enough_for_s(size) == pytest.approx(end_s - (above[-1] if above else 0.0))
    assert watched.wanted == sizes[-1]
