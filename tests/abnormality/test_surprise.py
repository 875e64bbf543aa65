"""What Tidegate's detector finds, and what it lets pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.abnormality import series
from tidegate.evaluate.abnormality import SurpriseDetector
from tidegate.evaluate.abnormality.sortedhistory import insert_sorted, replace_sorted, surprise

NEARBY_ROWS = 200


def alarms(values: series.Floats, timed: bool = True) -> series.Floats:
    detector = SurpriseDetector()
    found: series.Floats = np.flatnonzero(detector.walk(values, series.times_s() if timed else None) >= 0.5)
    return found[found >= series.CALM_FROM]


@pytest.mark.parametrize("name", series.CALM)
def test_regular_series_give_no_alarm(name: str) -> None:
    assert alarms(series.CALM[name]).tolist() == []


@pytest.mark.parametrize("name", series.ABNORMAL)
def test_abnormalities_are_found_soon_and_told_few_times(name: str) -> None:
    found = alarms(series.ABNORMAL[name])
    near = (found >= series.EVENT) & (found < series.EVENT + NEARBY_ROWS)
    assert near.any()
    assert near.sum() <= 4
    assert (~near).sum() <= 4


def test_the_time_of_day_tells_what_levels_alone_cannot() -> None:
    holiday = series.ABNORMAL["a holiday"]
    within = range(series.EVENT, series.EVENT + 60)
    assert any(row in within for row in alarms(holiday))
    assert not any(row in within for row in alarms(holiday, timed=False))


def test_unit_and_origin_do_not_matter() -> None:
    values = series.ABNORMAL["restless"]
    detector, other = SurpriseDetector(), SurpriseDetector()
    assert detector.walk(values) == pytest.approx(other.walk(-1024.0 * values), abs=1e-9)
    moved = SurpriseDetector().walk(values + 4096.0)
    assert moved == pytest.approx(SurpriseDetector().walk(values), abs=1e-6)


def test_an_episode_gives_an_alarm_or_two_unless_it_gets_worse() -> None:
    detector = SurpriseDetector()
    detector.walk(20.0 + series.noise()[:1000])
    plateau = detector.walk(np.full(30, 45.0))
    assert 1 <= (plateau >= 0.5).sum() <= 2
    assert detector.score(1000.0) >= 0.5


def test_a_lasting_level_becomes_normal() -> None:
    detector = SurpriseDetector()
    detector.walk(20.0 + series.noise()[:1000])
    detector.walk(60.0 + series.noise()[:600])
    assert detector.strangeness < 0.5


def test_a_lower_threshold_flags_more() -> None:
    values = 20.0 + series.noise()
    few, many = (int((SurpriseDetector(at).walk(values) >= at).sum()) for at in (0.6, 0.3))
    assert few < many


def test_any_threshold_near_the_one_reads_the_same_alarms_off_the_scores() -> None:
    scores = SurpriseDetector().walk(20.0 + series.noise())
    assert np.flatnonzero(scores >= 0.3).tolist() == np.flatnonzero(scores >= 0.75).tolist() != []


def test_memory_is_bounded_by_the_history() -> None:
    short = SurpriseDetector(history_rows=100)
    short.walk(series.noise())
    before = [array.nbytes for array in short._state]
    short.walk(series.noise(2))
    assert [array.nbytes for array in short._state] == before
    assert sum(before) < 20_000


sorted_numbers = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=30).map(sorted)


@settings(max_examples=30)
@given(known=sorted_numbers, new=st.integers(-60, 60).map(float), data=st.data())
def test_sorted_histories_stay_sorted(known: list[float], new: float, data: st.DataObject) -> None:
    old = data.draw(st.sampled_from(known))
    ordered = np.array(known)
    replace_sorted(ordered, old, new)
    expected = list(known)
    expected.remove(old)
    assert ordered.tolist() == sorted([*expected, new])
    roomy = np.array([*known, 0.0])
    insert_sorted(roomy, len(known), new)
    assert roomy.tolist() == sorted([*known, new])


def test_surprise_grows_outwards_and_is_the_rank_inside() -> None:
    ordered = np.sort(series.noise())
    outwards = [surprise(ordered, value, 0.1) for value in (0.0, 4.0, 7.0, 7.9, 9.0, 20.0, 1e6)]
    assert outwards == sorted(outwards)
    rank = 200
    assert surprise(ordered, ordered[-rank], 0.1) == pytest.approx(-np.log((rank + 1) / (len(ordered) + 1)))
    assert surprise(-ordered[::-1], -20.0, 0.1) == pytest.approx(surprise(ordered, 20.0, 0.1))
