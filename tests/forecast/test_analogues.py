"""What followed in similar situations: bursts end, steps last, noise averages out, and the unseen is not invented."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tidegate.evaluate.forecast.analogues import Analogues, find_analogues
from tidegate.evaluate.forecast.rows import Floats

STEPS = 12


def found(past: Floats, now: float) -> Analogues:
    analogues = find_analogues(past, now, STEPS)
    assert analogues is not None
    return analogues


def noisy(level: float, count: int, spread: float = 0.2) -> Floats:
    return np.asarray(level * np.random.default_rng(3).lognormal(0.0, spread, count))


def test_a_burst_is_expected_to_end_when_bursts_end() -> None:
    past = np.array(([100.0] * 40 + [500.0] * 3) * 10 + [100.0] * 40 + [500.0])
    assert found(past, 500.0).quantile(0.75)[3:].max() < 250.0


def test_a_step_is_expected_to_last_when_steps_last() -> None:
    past = np.array(([100.0] * 60 + [500.0] * 60) * 5 + [100.0] * 60 + [500.0])
    assert found(past, 500.0).mean.min() > 450.0


def test_the_edges_of_noise_are_closer_than_its_values() -> None:
    """Twelve noisy steps vary together far less than one does, so no executor is bought for the noise."""
    past = noisy(1000.0, 700)
    analogues = found(past, 1000.0)
    totals = [analogues.quantile(share).sum() for share in (0.05, 0.95)]
    assert 0.8 < totals[0] / (STEPS * 1000.0) < totals[1] / (STEPS * 1000.0) < 1.2
    assert np.quantile(past, 0.95) > 1.3 * np.median(past)


def test_the_rise_of_a_rhythm_is_expected() -> None:
    steps = np.arange(600)
    past = 1000.0 + 800.0 * np.sin(2 * np.pi * steps / 60)
    assert found(past, float(past[-1])).mean == pytest.approx(
        1000.0 + 800.0 * np.sin(2 * np.pi * (600 + np.arange(STEPS)) / 60), rel=0.25, abs=100.0
    )


def test_what_never_happened_has_no_analogues() -> None:
    assert find_analogues(noisy(100.0, 700), 5000.0, STEPS) is None


def test_a_single_event_earns_little_trust() -> None:
    past = np.concatenate((np.full(300, 100.0), np.full(2, 500.0), np.full(300, 100.0)))
    assert found(past, 100.0).trust > 0.9
    assert found(past, 500.0).trust < 0.5


@pytest.mark.parametrize("count", [0, 1, STEPS, STEPS + 12])
def test_a_short_past_says_nothing(count: int) -> None:
    assert find_analogues(np.full(count, 5.0), 5.0, STEPS) is None


@given(
    arrays(np.float64, st.integers(40, 120), elements=st.floats(0.0, 1e6)),
    st.floats(0.0, 1e6),
    st.floats(0.01, 0.99),
)
def test_paths_are_rates_and_quantiles_are_in_order(past: Floats, now: float, share: float) -> None:
    analogues = find_analogues(past, now, STEPS)
    if analogues is None:
        return
    assert analogues.weights.sum() == pytest.approx(1.0)
    assert 0.0 <= analogues.trust < 1.0
    assert analogues.paths.min() >= 0.0
    assert analogues.paths.max() <= 1.1 * max(float(past.max()), now) + 1e-6
    low, high = (np.cumsum(analogues.quantile(one)) for one in (share / 2, share))
    assert (low <= high + 1e-6).all()
    assert analogues.quantile(share).min() >= -1e-6 * max(float(past.max()), now, 1.0)
