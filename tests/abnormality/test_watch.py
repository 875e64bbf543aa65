"""The watch: abnormal samples of named series, in bounded memory, with a reason for the journal."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality import Verdict, Watch

Floats = NDArray[np.float64]


class Scripted:
    """A detector whose samples are their own strangeness; it sounds an alarm for exactly 1."""

    threshold = 0.5

    def __init__(self) -> None:
        self.strangeness = 0.0

    def score(self, value: float, time_s: float | None = None) -> float:
        self.strangeness = value
        return value if value == 1.0 else 0.0

    def walk(self, values: Floats, times_s: Floats | None = None) -> Floats:
        return np.array([self.score(value) for value in values])


def looked(watch: Watch, *values: float) -> list[Verdict]:
    return [watch.look("latency", value) for value in values]


def test_an_episode_lasts_while_samples_are_strange() -> None:
    verdicts = looked(Watch(Scripted), 0.9, 1.0, 0.9, 0.6, 0.2, 0.9)
    assert [verdict.abnormal for verdict in verdicts] == [False, True, True, True, False, False]
    assert [verdict.alarm for verdict in verdicts] == [False, True, False, False, False, False]


def test_what_lasts_is_the_new_normal() -> None:
    verdicts = looked(Watch(Scripted, longest_episode_rows=3), 1.0, *[0.9] * 5)
    assert [verdict.abnormal for verdict in verdicts] == [True, True, True, False, False, False]


def test_reasons_name_the_series_and_the_sample() -> None:
    calm, alarm, still = looked(Watch(Scripted), 0.0, 1.0, 0.8)
    assert calm.reason is None
    assert alarm.reason is not None
    assert still.reason is not None
    assert alarm.reason.code == still.reason.code == "abnormal"
    assert str(alarm.reason) == "latency 1 is abnormal (strangeness 1.00, from 0.5 on)"
    assert "still abnormal, sample 2" in str(still.reason)


def test_series_are_apart_and_the_longest_unseen_is_forgotten() -> None:
    watch = Watch(Scripted, most_series=2)
    watch.look("a", 1.0)
    assert not watch.look("b", 0.9).abnormal
    assert watch.look("a", 0.9).abnormal
    watch.look("c", 0.0)  # b goes: a was seen after it
    assert watch.look("a", 0.9).abnormal
    watch.look("d", 0.0)
    watch.look("e", 0.0)
    assert not watch.look("a", 0.9).abnormal


@pytest.mark.parametrize("sizes", [{"longest_episode_rows": 0}, {"most_series": 0}])
def test_a_watch_without_room_is_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        Watch(Scripted, **sizes)
