"""NAB's scoring rule against examples worked by hand, and its corpus where there is one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality import THRESHOLD, SurpriseDetector
from tidegate_lab.experiments.nab import (
    LabelledSeries,
    Profile,
    corpus_score,
    find_corpus,
    read_corpus,
    read_profiles,
    series_score,
    sigmoid,
    walk_corpus,
)

STANDARD = Profile("standard", hit=1.0, miss=1.0, false_alarm=0.11)
ROWS, WINDOW = 1000, (400, 499)


def score(*flagged: int) -> float:
    return series_score(flagged, ROWS, [WINDOW], STANDARD)


def test_the_windows_first_row_earns_everything_and_later_ones_less() -> None:
    assert score(400) == pytest.approx(1.0)
    # Half way: σ(−0.5) / σ(−1) = (2 / (1 + e^−2.5) − 1) / (2 / (1 + e^−5) − 1).
    assert score(450) == pytest.approx((2 / (1 + math.exp(-2.5)) - 1) / (2 / (1 + math.exp(-5)) - 1))
    assert 0.0 < score(499) < 0.03


def test_only_the_earliest_detection_in_a_window_counts() -> None:
    assert score(450, 420, 480) == score(420)


def test_a_miss_costs_one() -> None:
    assert score() == -1.0


def test_false_alarms_cost_more_the_farther_behind_the_window() -> None:
    assert score(400, 300) == pytest.approx(1.0 - 0.11)
    # Half a width (of 99 steps) behind row 499, and far behind.
    assert score(400, 499 + 99) == pytest.approx(1.0 + 0.11 * sigmoid(1.0))
    near, far = 1.0 - score(400, 509), 1.0 - score(400, 900)
    assert 0.0 < near < 0.04
    assert far == pytest.approx(0.11)


def test_every_false_alarm_counts() -> None:
    assert score(400, 200, 201, 202) == pytest.approx(1.0 - 3 * 0.11)


def test_probation_earns_and_costs_nothing() -> None:
    assert score(0, 149, 400) == pytest.approx(1.0)
    assert score(150, 400) == pytest.approx(1.0 - 0.11)
    assert series_score([20], ROWS, [(10, 30)], STANDARD) == 0.0


def corpus() -> list[LabelledSeries]:
    times_s, values = np.arange(ROWS) * 300.0, np.zeros(ROWS)
    return [
        LabelledSeries("family/a.csv", times_s, values, (WINDOW, (700, 799))),
        LabelledSeries("family/b.csv", times_s, values, ()),
    ]


def flags(*rows: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found = np.zeros(ROWS)
    found[list(rows)] = 0.9
    return found


def test_silence_is_0_perfection_100_and_misses_weigh_by_profile() -> None:
    assert corpus_score(corpus(), [flags(), flags()], 0.5, STANDARD) == 0.0
    assert corpus_score(corpus(), [flags(400, 700), flags()], 0.5, STANDARD) == pytest.approx(100.0)
    assert corpus_score(corpus(), [flags(400), flags()], 0.5, STANDARD) == pytest.approx(50.0)
    assert corpus_score(corpus(), [flags(400, 700), flags(300)], 0.5, STANDARD) == pytest.approx(100 - 11 / 4)
    low_misses = Profile("reward_low_FN_rate", hit=1.0, miss=2.0, false_alarm=0.11)
    assert corpus_score(corpus(), [flags(400), flags()], 0.5, low_misses) == pytest.approx(50.0)


def test_the_threshold_itself_is_a_detection() -> None:
    assert corpus_score(corpus(), [flags(400, 700), flags()], 0.9, STANDARD) == pytest.approx(100.0)
    assert corpus_score(corpus(), [flags(400, 700), flags()], 0.91, STANDARD) == 0.0


def test_a_corpus_without_windows_has_no_score() -> None:
    with pytest.raises(InvalidInput, match="labelled window"):
        corpus_score(corpus()[1:], [flags()], 0.5, STANDARD)


def test_a_corpus_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data" / "real").mkdir(parents=True)
    (tmp_path / "labels").mkdir()
    rows = "\n".join(f"2014-01-01 00:{minute:02d}:00,{minute}.5" for minute in range(20))
    (tmp_path / "data" / "real" / "a.csv").write_text(f"timestamp,value\n{rows}\n")
    windows = {"real/a.csv": [["2014-01-01 00:05:00.000000", "2014-01-01 00:09:00.000000"]], "real/gone.csv": []}
    (tmp_path / "labels" / "combined_windows.json").write_text(json.dumps(windows))
    (series,) = read_corpus(tmp_path)
    assert series.windows == ((5, 9),)
    assert series.values[:2].tolist() == [0.5, 1.5]
    assert np.diff(series.times_s).tolist() == [60.0] * 19
    with pytest.raises(InvalidInput, match=r"profiles\.json"):
        read_profiles(tmp_path)


def test_the_short_series_of_the_corpus_score_beyond_60_with_the_one_threshold() -> None:
    folder = find_corpus()
    if folder is None:
        pytest.skip("no NAB corpus: set TIDEGATE_DATA to the folder that has nab/")
    known = [series for series in read_corpus(folder) if len(series.values) < 6000]  # the long ones take their time
    scores = walk_corpus(known, SurpriseDetector)
    assert corpus_score(known, scores, THRESHOLD, read_profiles(folder)["standard"]) >= 60.0
