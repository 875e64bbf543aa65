"""The selecting bank: seasons found, better than naive, calibrated, and honest about what it cannot know."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tidegate.evaluate.forecast import ArimaBank, SelectingBank
from tidegate.evaluate.forecast.season import find_seasons
from tidegate.evaluate.forecast.series import read_series
from tidegate.evaluate.forecast.walk import walk

DATA = Path(os.environ.get("TIDEGATE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def test_seasons_are_found_and_noise_has_none() -> None:
    rng = np.random.default_rng(1)
    hours = np.arange(24 * 28)
    daily = 10 * np.sin(2 * np.pi * hours / 24) + rng.normal(0, 3, len(hours))
    assert find_seasons(daily) == (24, 0)
    assert find_seasons(rng.normal(size=2000)) == (0, 0)
    assert find_seasons(np.cumsum(rng.normal(size=300)) * 0 + 4.0) == (0, 0)
    assert find_seasons(daily[:30]) == (0, 0)  # too short to tell


def test_a_week_is_seen_beside_the_day() -> None:
    hours = np.arange(24 * 56)
    weekly = np.sin(2 * np.pi * hours / 24) * (1 + (hours // 24 % 7 >= 5))
    assert find_seasons(weekly, given=(24, 168)) == (24, 168)


def test_spikes_do_not_hide_a_season() -> None:
    rng = np.random.default_rng(1)
    hours = np.arange(24 * 28)
    values = 10 * np.sin(2 * np.pi * hours / 24) + rng.normal(0, 3, len(hours))
    values[[100, 401]] = 1e5
    assert find_seasons(values)[0] == 24


@pytest.mark.parametrize("horizon", [1, 12])
def test_a_season_beats_both_naive_forecasts(horizon: int) -> None:
    rng = np.random.default_rng(4)
    hours = np.arange(24 * 35)
    values = 100 + 50 * np.sin(2 * np.pi * hours / 24) + rng.normal(0, 10, len(hours))
    walked = walk(values, horizon)
    made = np.arange(300, len(values) - horizon)
    ours = np.mean((walked.mean[made] - values[made + horizon]) ** 2)
    last = np.mean((values[made] - values[made + horizon]) ** 2)
    seasonal = np.mean((values[made + horizon - 24] - values[made + horizon]) ** 2)
    assert ours < 0.75 * seasonal < 0.75 * last or ours < 0.75 * last < 0.75 * seasonal
    assert walked.trusted[made].mean() > 0.99


@pytest.mark.parametrize("horizon", [1, 6])
def test_intervals_hold_nine_in_ten_on_gaussian_noise(horizon: int) -> None:
    rng = np.random.default_rng(6)
    streams, rows = 20, 800
    values = rng.normal(50, 5, (rows, streams))
    bank = SelectingBank(streams, horizon, history=256)
    inside, width = [], []
    for row in range(rows - horizon):
        bank.observe(values[row])
        made = bank.forecast()
        if row > 200:
            came = values[row + horizon]
            inside.append((made.lower[:, -1] <= came) & (came <= made.upper[:, -1]))
            width.append(made.upper[:, -1] - made.lower[:, -1])
    assert 0.88 <= np.mean(inside) <= 0.92
    assert np.mean(width) == pytest.approx(2 * 1.645 * 5, rel=0.15)  # no wider than they have to be


def test_intervals_recover_after_the_noise_grows() -> None:
    rng = np.random.default_rng(6)
    values = np.r_[rng.normal(50, 1, 500), rng.normal(50, 20, 500)]
    walked = walk(values, 1)
    late = np.arange(600, 999)
    assert np.mean((walked.lower[late] <= values[late + 1]) & (values[late + 1] <= walked.upper[late])) > 0.86


@pytest.mark.slow
def test_a_random_walk_is_not_trusted_and_costs_little() -> None:
    rng = np.random.default_rng(8)
    values = 1000 + np.cumsum(rng.normal(size=2000))
    walked = walk(values, 5)
    made = np.arange(200, len(values) - 5)
    ours = np.mean((walked.mean[made] - values[made + 5]) ** 2)
    last = np.mean((values[made] - values[made + 5]) ** 2)
    assert ours < 1.1 * last
    assert walked.trusted[made].mean() < 0.7


def test_weights_say_who_is_believed() -> None:
    hours = np.arange(24 * 20)
    bank = SelectingBank(1, 6)
    for value in 100 + 50 * np.sin(2 * np.pi * hours / 24):
        bank.observe([value])
    weights = {name: float(share[0]) for name, share in bank.weights.items()}
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["last value"] < 0.01


def test_between_anchors_the_path_is_interpolated() -> None:
    bank = SelectingBank(1, 5, anchors=(1,))
    for value in np.arange(100.0):
        bank.observe([value])
    path = bank.forecast().mean[0]
    np.testing.assert_allclose(path, np.interp(np.arange(1, 6), [1, 5], path[[0, 4]]))
    assert path[0] == pytest.approx(100, abs=2)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "nab").is_dir(), reason="needs the series of NAB (set TIDEGATE_DATA)")
def test_taxi_demand_is_forecast_better_than_by_its_naive_rivals() -> None:
    known = read_series(DATA / "nab" / "data" / "realKnownCause" / "nyc_taxi.csv", "value")
    assert known.seasons == (48, 336)
    values = known.values[:2000]
    horizon, first = 12, 700
    ours = walk(values, horizon, seasons=known.seasons).score(first)
    arima = walk(values, horizon, bank=ArimaBank(1, horizon)).score(first)
    actual, made = values[first + horizon :], np.arange(first, len(values) - horizon)
    week = float(np.sqrt(np.mean((values[made + horizon - 336] - actual) ** 2)) / actual.std())
    assert ours.nrmse is not None
    assert arima.nrmse is not None
    assert ours.nrmse < min(week, 0.5 * arima.nrmse)
    assert ours.coverage is not None
    assert 0.85 <= ours.coverage <= 0.95
