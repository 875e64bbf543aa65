"""The online ARIMA against batch fits of simulated processes, and its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.arima_process import ArmaProcess

from tidegate.evaluate.forecast import ArimaBank

ROWS = 2000


def process(ar: list[float], ma: list[float], streams: int = 1) -> np.ndarray:
    """ARMA samples with unit noise, rows × streams; coefficients β and θ."""
    simulated = ArmaProcess(np.r_[1, -np.array(ar)], np.r_[1, ma])
    rng = np.random.default_rng(5)
    rows: np.ndarray = simulated.generate_sample((ROWS, streams), distrvs=rng.standard_normal, burnin=50)
    return rows


@pytest.mark.parametrize(("ar", "ma"), [([0.6, -0.3], []), ([0.5], [0.4])])
def test_coefficients_come_out_as_in_a_batch_fit(ar: list[float], ma: list[float]) -> None:
    rows = process(ar, ma)
    order = (len(ar), 1, len(ma))
    bank = ArimaBank(1, order=order, forgetting=1.0)
    for value in np.cumsum(rows):
        bank.observe([value])
    batch = ARIMA(rows[:, 0], order=(len(ar), 0, len(ma)), trend="n").fit(method="innovations_mle")
    np.testing.assert_allclose(bank.coefficients[0], batch.params[:-1], atol=0.06)
    np.testing.assert_allclose(bank.coefficients[0], [*ar, *ma], atol=0.08)


def test_a_path_iterates_the_equation() -> None:
    rows = process([0.7, -0.2], [])
    bank = ArimaBank(1, 8, order=(2, 0, 0), forgetting=1.0)
    for value in rows[:, 0]:
        bank.observe([value])
    beta, constant = bank.coefficients[0, :2], bank.coefficients[0, 2]
    past = [rows[-2, 0], rows[-1, 0]]
    for _ in range(8):
        past.append(constant + beta[0] * past[-1] + beta[1] * past[-2])
    np.testing.assert_allclose(bank.forecast().mean[0], past[2:], rtol=1e-9)


def test_coefficients_follow_a_change() -> None:
    first, then = process([0.8], []), process([-0.5], [])
    bank = ArimaBank(1, order=(1, 0, 0), forgetting=0.99)
    for value in np.r_[first[:, 0], then[:, 0]]:
        bank.observe([value])
    assert bank.coefficients[0, 0] == pytest.approx(-0.5, abs=0.15)


@pytest.mark.parametrize("step", [1, 5])
def test_intervals_hold_nine_in_ten(step: int) -> None:
    streams = 30
    rows = process([0.6], [0.3], streams)
    bank = ArimaBank(streams, step, order=(1, 0, 1))
    inside = []
    for row in range(ROWS - step):
        bank.observe(rows[row])
        if row > 300:
            made, came = bank.forecast(), rows[row + step]
            inside.append((made.lower[:, -1] <= came) & (came <= made.upper[:, -1]))
    assert 0.87 <= np.mean(inside) <= 0.93


def test_trust_is_given_where_something_can_be_known() -> None:
    rng = np.random.default_rng(2)
    noise, walk = rng.standard_normal(600), np.cumsum(rng.standard_normal(600))
    bank = ArimaBank(2)
    trusted = []
    for row in np.column_stack([noise, walk]):
        bank.observe(row)
        trusted.append(bank.forecast().trusted)
    assert not trusted[5].any()
    assert np.mean(trusted[100:], axis=0)[0] == 1.0  # the last value is a poor guess of noise
    assert np.mean(trusted[100:], axis=0)[1] < 0.5  # and the best one of a random walk
