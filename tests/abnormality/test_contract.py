"""What every detector promises: bounded scores, causality, the same answer one by one and all at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.abnormality import series
from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality import Detector, SurpriseDetector, WindowedGaussian

MAKERS: list[Callable[..., Detector]] = [SurpriseDetector, WindowedGaussian]
contract = pytest.mark.parametrize("make", MAKERS, ids=["surprise", "gaussian"])
numbers = st.floats(allow_nan=False, allow_infinity=False)


@contract
@settings(max_examples=15)
@given(start=st.lists(numbers, max_size=20), repeat=st.integers(1, 12))
def test_scores_lie_between_0_and_1_whatever_comes(
    make: Callable[..., Detector], start: list[float], repeat: int
) -> None:
    values = np.array(start * repeat + [0.0, 1e308, -1e308, 1e-308])
    scores = make().walk(values, np.linspace(-1e9, 1e9, len(values)))
    assert np.isfinite(scores).all()
    assert scores.min() >= 0.0
    assert scores.max() <= 1.0


@contract
@pytest.mark.parametrize("timed", [True, False])
def test_one_by_one_in_pieces_and_at_once_are_the_same(make: Callable[..., Detector], timed: bool) -> None:
    values = series.ABNORMAL["a holiday"]
    times_s = series.times_s() if timed else None
    at_once = make()
    expected = at_once.walk(values, times_s)
    single = make()
    times = times_s.tolist() if times_s is not None else [None] * len(values)
    one_by_one = [single.score(value, time_s) for value, time_s in zip(values.tolist(), times, strict=True)]
    pieces = make()
    in_pieces = [
        pieces.walk(values[rows], None if times_s is None else times_s[rows])
        for rows in (slice(0, 1), slice(1, 1), slice(1, 777), slice(777, None))
    ]
    assert one_by_one == expected.tolist()
    assert np.concatenate(in_pieces).tolist() == expected.tolist()
    assert single.strangeness == at_once.strangeness == pieces.strangeness


@contract
def test_the_future_does_not_change_the_past(make: Callable[..., Detector]) -> None:
    values = series.ABNORMAL["level shift"]
    other = values.copy()
    other[2000:] = 1e6
    assert make().walk(values)[:2000].tolist() == make().walk(other)[:2000].tolist()


@contract
def test_a_far_outlier_is_an_alarm_and_a_middling_sample_is_not(make: Callable[..., Detector]) -> None:
    detector = make()
    detector.walk(20.0 + series.noise()[:600])
    assert detector.score(20.0) < detector.threshold
    assert detector.score(20_000.0) >= detector.threshold
    assert detector.strangeness >= detector.threshold


@contract
def test_what_is_no_number_is_refused_and_leaves_no_trace(make: Callable[..., Detector]) -> None:
    detector, untouched = make(), make()
    for value, time_s in ((np.nan, None), (np.inf, None), (1.0, np.nan)):
        with pytest.raises(InvalidInput):
            detector.score(value, time_s)
    with pytest.raises(InvalidInput, match="finite"):
        detector.walk(np.array([1.0, np.nan]))
    with pytest.raises(InvalidInput, match="one finite time for each"):
        detector.walk(np.ones(3), np.ones(2))
    values = series.noise()[:200]
    assert detector.walk(values).tolist() == untouched.walk(values).tolist()


@contract
@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.0, np.nan])
def test_impossible_thresholds_are_refused(make: Callable[..., Detector], threshold: float) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        make(threshold)


@contract
def test_no_room_for_a_history_is_refused(make: Callable[..., Detector]) -> None:
    with pytest.raises(InvalidInput, match="too short"):
        make(0.5, 0)
