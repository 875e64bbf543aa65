"""What every forecaster promises, whatever is inside."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.evaluate.forecast import ArimaBank, Forecast, Forecaster, SelectingBank

Build = Callable[[int, int], Forecaster]
BANKS: dict[str, Build] = {
    "arima": lambda streams, horizon: ArimaBank(streams, horizon),
    "arma": lambda streams, horizon: ArimaBank(streams, horizon, order=(2, 0, 1)),
    "ar-of-trend": lambda streams, horizon: ArimaBank(streams, horizon, order=(1, 2, 0)),
    "selecting": lambda streams, horizon: SelectingBank(streams, horizon, seasons=(24,), history=256),
    "selecting-path": lambda streams, horizon: SelectingBank(streams, horizon, anchors=(1,), history=256),
}
every = pytest.mark.parametrize("build", BANKS.values(), ids=BANKS.keys())


def waves(rows: int, streams: int, seed: int = 0) -> np.ndarray:
    """Noisy daily waves of different size, all positive."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows)[:, None]
    return 100 + 40 * np.sin(2 * np.pi * (hours + np.arange(streams)) / 24) + rng.normal(0, 5, (rows, streams))


def shown(bank: Forecaster, rows: np.ndarray) -> Forecast:
    for row in rows:
        bank.observe(row)
    return bank.forecast()


@every
def test_a_forecast_has_a_row_per_stream_and_a_column_per_step(build: Build) -> None:
    bank = build(3, 4)
    assert isinstance(bank, Forecaster)
    made = shown(bank, waves(120, 3))
    assert made.mean.shape == made.lower.shape == made.upper.shape == (3, 4)
    assert made.trusted.shape == (3,)
    assert np.isfinite(made.mean).all()
    assert (made.lower <= made.mean).all()
    assert (made.mean <= made.upper).all()


@every
def test_later_rows_do_not_change_earlier_forecasts(build: Build) -> None:
    rows = waves(200, 2)
    other = rows.copy()
    other[150:] = 1e6
    one, two = build(2, 3), build(2, 3)
    for row in range(200):
        one.observe(rows[row])
        two.observe(other[row])
        a, b = one.forecast(), two.forecast()
        if row < 150:
            np.testing.assert_array_equal(a.mean, b.mean)
            np.testing.assert_array_equal(a.lower, b.lower)
            np.testing.assert_array_equal(a.upper, b.upper)
    assert not np.array_equal(a.mean, b.mean)


@every
def test_streams_do_not_touch_each_other(build: Build) -> None:
    rows = waves(150, 3)
    together = shown(build(3, 2), rows)
    others = rows.copy()
    others[:, [0, 2]] = np.nan
    alone = shown(build(3, 2), others)
    np.testing.assert_allclose(together.mean[1], alone.mean[1], rtol=1e-6)


@every
def test_forecasting_changes_nothing(build: Build) -> None:
    bank = build(2, 2)
    shown(bank, waves(80, 2))
    np.testing.assert_array_equal(bank.forecast().mean, bank.forecast().mean)


@every
def test_a_pickled_bank_goes_on_as_if_nothing_had_been(build: Build) -> None:
    rows = waves(160, 2)
    bank = build(2, 3)
    shown(bank, rows[:100])
    copy = pickle.loads(pickle.dumps(bank))
    np.testing.assert_array_equal(shown(bank, rows[100:]).mean, shown(copy, rows[100:]).mean)


@every
def test_size_and_unit_of_the_values_do_not_matter(build: Build) -> None:
    rows = waves(150, 2)
    plain, scaled = shown(build(2, 3), rows), shown(build(2, 3), 1000 * rows)
    np.testing.assert_allclose(scaled.mean, 1000 * plain.mean, rtol=1e-6)
    np.testing.assert_allclose(scaled.upper, 1000 * plain.upper, rtol=1e-6)


@pytest.mark.parametrize("name", ["arima", "selecting"])
def test_what_works_on_differences_does_not_mind_the_level(name: str) -> None:
    rows = waves(150, 2)
    bank = ArimaBank(2, 3) if name == "arima" else SelectingBank(2, 3, seasons=(24,), history=256)
    high = ArimaBank(2, 3) if name == "arima" else SelectingBank(2, 3, seasons=(24,), history=256)
    np.testing.assert_allclose(shown(high, rows + 5000).mean, shown(bank, rows).mean + 5000, rtol=1e-5)


@every
def test_a_constant_stays_and_a_line_of_zeros_too(build: Build) -> None:
    made = shown(build(2, 3), np.tile([7.0, 0.0], (120, 1)))
    np.testing.assert_allclose(made.mean, [[7.0] * 3, [0.0] * 3], atol=0.05)
    assert not made.trusted.any()  # nothing beats the last value here


@every
def test_missing_samples_are_bridged(build: Build) -> None:
    rows = waves(240, 2)
    rows[::7, 0] = np.nan
    rows[:30, 1] = np.nan  # starts late
    bank = build(2, 2)
    bank.observe(rows[0])
    assert np.isnan(bank.forecast().mean).all()  # nothing was seen of either
    made = shown(bank, rows[1:])
    assert np.isfinite(made.mean).all()
    assert (np.abs(made.mean - 100) < 80).all()


@every
def test_non_negative_streams_get_non_negative_forecasts(build: Build) -> None:
    rng = np.random.default_rng(3)
    bank = build(4, 3)
    for row in rng.poisson(0.7, (200, 4)):
        bank.observe(row)
        made = bank.forecast()
        assert (made.lower >= 0).all()
        assert (made.mean >= 0).all()


@every
@settings(max_examples=12)
@given(
    values=st.lists(
        st.floats(-1e12, 1e12) | st.just(float("nan")) | st.just(float("inf")) | st.just(0.0), min_size=20, max_size=90
    )
)
def test_whatever_comes_forecasts_stay_near_what_was_seen(build: Build, values: list[float]) -> None:
    bank = build(1, 3)
    seen = [value for value in values if np.isfinite(value)]
    for value in values:
        bank.observe([value])
    made = bank.forecast()
    if not seen:
        assert np.isnan(made.mean).all()
        return
    room = 0.11 * (max(seen) - min(seen)) + 1e-6 * max(1.0, max(abs(value) for value in seen))
    assert (made.mean >= min(seen) - room).all()
    assert (made.mean <= max(seen) + room).all()


@every
def test_a_row_of_the_wrong_length_is_refused(build: Build) -> None:
    with pytest.raises(ValueError, match="one sample for each of the 2 streams"):
        build(2, 1).observe([1.0, 2.0, 3.0])


def test_impossible_banks_are_refused() -> None:
    for broken in (
        lambda: ArimaBank(0),
        lambda: ArimaBank(1, order=(0, 1, 0)),
        lambda: ArimaBank(1, order=(1, 3, 0)),
        lambda: ArimaBank(1, forgetting=0.5),
        lambda: SelectingBank(1, 0),
        lambda: SelectingBank(1, 2, anchors=(5,)),
        lambda: SelectingBank(1, coverage=1.0),
        lambda: SelectingBank(1, history=3),
    ):
        with pytest.raises(ValueError, match=r"\d"):
            broken()
