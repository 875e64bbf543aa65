"""What is remembered of flows, and what is expected of them."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.adapters.sim.ratehistory import RateHistory


def remember(values: np.ndarray, length: int = 512) -> RateHistory:
    history = RateHistory(tasks=1, length=length)
    for value in values:
        history.record(np.array([value]), np.array([True]))
    return history


def test_nothing_known_nothing_forecast() -> None:
    assert RateHistory(tasks=1).forecast(0, 5) is None


@pytest.mark.parametrize("period", [7, 40, 100])
def test_a_period_is_found_and_goes_on(period: int) -> None:
    wave = 249 + 40 * np.sin(2 * np.pi * np.arange(400) / period + 1)
    forecast = remember(wave[:300]).forecast(0, 100)
    assert forecast == pytest.approx(wave[300:], abs=0.5)


def test_a_period_is_found_under_noise() -> None:
    noise = np.random.default_rng(1).normal(0, 4, 400)
    wave = 249 + 40 * np.sin(2 * np.pi * np.arange(400) / 40)
    forecast = remember(wave[:300] + noise[:300]).forecast(0, 80)
    assert forecast is not None
    assert np.abs(forecast - wave[300:380]).mean() < 10


def test_without_a_period_the_recent_past_is_repeated() -> None:
    steps = np.concatenate([np.full(100, 10.0), np.full(20, 30.0)])
    assert remember(steps).forecast(0, 20) == pytest.approx(np.full(20, 30.0))


def test_only_the_latest_records_are_kept() -> None:
    history = remember(np.arange(100.0), length=16)
    assert history.series(0).tolist() == list(range(84, 100))


def test_a_task_that_was_dead_has_no_past() -> None:
    history = remember(np.arange(10.0))
    history.record(np.array([0.0]), np.array([False]))
    assert history.forecast(0, 5) is None
