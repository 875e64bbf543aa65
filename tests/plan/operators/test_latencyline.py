"""The line through latencies: its fit, what exceeds it, when it is stable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.evaluate.bottleneck import (
    ThresholdModel,
    add_latency,
    bottleneck_levels,
    fit_latency_line,
    reference_bottleneck_s,
    refit,
    same_order,
)

ACCURACY, INTERVAL_S = 0.3, 60.0


@settings(max_examples=30)
@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=40), st.floats(-5, 5))
def test_the_fit_is_least_squares(noise: list[float], slope: float) -> None:
    times = [1e9 + 1.3 * step for step in range(len(noise))]
    values = [slope * step + value for step, value in enumerate(noise)]
    line = fit_latency_line(times, values)
    w, b = np.polyfit(np.array(times) - line.origin_s, values, 1)
    assert line.w == pytest.approx(w, abs=1e-6)
    assert line.b == pytest.approx(b, abs=1e-6)
    residuals = [line.at(time_s) - value for time_s, value in zip(times, values, strict=True)]
    assert line.e == pytest.approx(float(np.mean(np.square(residuals))), abs=1e-6)


def watched(latencies: list[float]) -> tuple[ThresholdModel, list[bool]]:
    model, exceeded = ThresholdModel(), []
    for second, latency_s in enumerate(latencies):
        exceeded.append(add_latency(model, float(second), latency_s, ACCURACY, INTERVAL_S))
        refit(model, float(second))
    return model, exceeded


def test_steady_latency_is_stable_and_noise_is_no_bottleneck() -> None:
    random = np.random.default_rng(0)
    model, exceeded = watched(list(1.0 + 0.08 * random.standard_normal(120)))
    assert model.stable
    assert sum(exceeded) <= 1
    assert reference_bottleneck_s(model, 119, INTERVAL_S, recurrences=3) is None


def test_a_step_gives_effective_values_and_ends_the_calm() -> None:
    steady = [1.0 + 0.01 * (second % 3) for second in range(60)]
    calm, _ = watched(steady)
    assert calm.stable
    model, exceeded = watched([*steady, 3.0, 3.1, 2.9])
    assert exceeded[-3:] == [True, True, True]
    assert not model.stable
    assert reference_bottleneck_s(model, 62, INTERVAL_S, recurrences=3) == pytest.approx(3.1)
    assert reference_bottleneck_s(model, 62, INTERVAL_S, recurrences=4) is None
    assert reference_bottleneck_s(model, 200, INTERVAL_S, recurrences=3) is None, "only within the interval"


def test_a_latency_that_falls_is_no_bottleneck() -> None:
    falling = [10.0 - 0.8 * second for second in range(12)]
    _, exceeded = watched([*falling, 1.0, 1.0, 1.0, 1.0])
    assert not any(exceeded)


def test_a_drift_moves_the_line_and_is_followed() -> None:
    _, exceeded = watched([1.0 + 0.02 * second for second in range(100)])
    assert not any(exceeded)


@settings(max_examples=30)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_same_order_of_magnitude(time_s: float, reference_s: float) -> None:
    assert same_order(time_s, reference_s) == (0.1 < time_s / reference_s < 10)


@settings(max_examples=30)
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 100), max_size=8))
def test_levels_rank_the_applications(times_s: dict[str, float]) -> None:
    levels = bottleneck_levels(times_s)
    assert sorted(levels.values()) == list(range(1, len(times_s) + 1))
    for one in times_s:
        for other in times_s:
            if times_s[one] > times_s[other]:
                assert levels[one] > levels[other]
