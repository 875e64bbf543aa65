"""A single stream in plain numbers gives the same bits as the columns."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.evaluate.forecast import arima, intervals, onestream, regression
from tidegate.evaluate.forecast.arima import arima_layout
from tidegate.evaluate.forecast.intervals import IssuedInterval, first_interval


def _series(kind, rng):
    """Samples with noise, jumps, long constants, and values of another world."""
    wave = 100.0 + 30.0 * np.sin(np.arange(400) / 15.0) + rng.normal(0.0, 5.0, 400)
    if kind == "jumps":
        wave[150:] *= 1e7
    if kind == "constant":
        wave[:] = 5.0
    if kind == "bursts":
        wave[::37] += 4000.0
    return np.maximum(wave, 0.0)


@pytest.mark.parametrize("kind", ["wave", "jumps", "constant", "bursts"])
@pytest.mark.parametrize("order", [(3, 1, 1), (2, 2, 0), (0, 1, 2), (2, 0, 1)])
def test_arima_learns_and_forecasts_alike(kind, order):
    layout = arima_layout(order)
    columns, plain = (layout.view(np.ascontiguousarray(layout.empty(1).T)) for _ in range(2))
    for value in _series(kind, np.random.default_rng(7)):
        arima.learn(columns, np.array([value]), order, 0.998, 0.1)
        onestream.learn(plain, float(value), order, 0.998, 0.1)
        for one, other in zip(columns, plain, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.array(arima.path(columns, order, 12)), onestream.path(plain, order, 12))


def test_intervals_are_calibrated_alike():
    rng = np.random.default_rng(3)
    columns, plain = (first_interval(0.9)[:, None].copy() for _ in range(2))
    for outcomes in range(1, 300):
        mean, value = rng.normal(0.0, 1.0, 2)
        half = 1.5 * abs(rng.normal())
        issued = [mean, mean - half, mean + half, 0.0 if outcomes < 3 else 0.5 + rng.random()]
        interval = IssuedInterval(*(np.array([part]) for part in issued))
        intervals.calibrate(columns, np.array([value]), interval, 0.1, 6, np.array([float(outcomes)]))
        onestream.calibrate(plain, value, interval, 0.1, 6, float(outcomes))
        np.testing.assert_array_equal(columns, plain)


def test_outcomes_are_weighed_alike():
    rng = np.random.default_rng(4)
    columns, plain = np.zeros((2, 1)), np.zeros((2, 1))
    for outcomes in range(1, 200):
        error = float(rng.standard_cauchy())
        expected = regression.robust_weights(columns, np.array([error]), np.array([float(outcomes)]))
        assert onestream.robust_weight(plain, error, float(outcomes)) == expected.item()
        np.testing.assert_array_equal(columns, plain)
