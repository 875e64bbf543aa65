"""Which rises of a load are followed, and how far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tidegate.domain import ApplicationSample, ArrivalSample
from tidegate.evaluate import lateness, workload
from tidegate.evaluate.intake import Reader
from tidegate.evaluate.table import Floats, Table


def expected(rates: Sequence[float] | Floats, restarted: int = 0) -> tuple[Floats, Floats]:
    """The arrival rate and the expected one after each second of this load; its source counts anew from `restarted`."""
    table = Table({**workload.COLUMNS, **lateness.COLUMNS})
    reader, found = Reader(table), []
    counted = np.cumsum(rates)
    counted[restarted:] -= counted[restarted - 1] if restarted else 0.0
    for second, rows in enumerate(counted.tolist()):
        sample = ApplicationSample("orders", (), float(second), 1.0, arrival=ArrivalSample(float(second), int(rows)))
        twin = ApplicationSample("twin", (), float(second), 1.0, arrival=ArrivalSample(float(second), int(rows)))
        intake = reader.read((sample, twin))
        workload.learn(table, intake, 0.0)
        loads = workload.read(table, intake, float(second))
        found.append((loads.arrival[0], loads.expected[0]))
    arrival, ahead = np.array(found).T
    return arrival, ahead


def test_a_steady_rise_is_followed_until_new_executors_would_be_warm() -> None:
    calm, rise = np.full(60, 100.0), 100.0 + 5.0 * np.arange(60)
    arrival, ahead = expected(np.concatenate((calm, rise)))
    for second in range(80, 115):
        due = 100.0 + 5.0 * (second - 60 + workload.TREND_LEAD_S)
        assert ahead[second] == pytest.approx(min(due, workload.TREND_LEAP * (due - 100.0)), rel=0.1)
        assert arrival[second] < 100.0 + 5.0 * (second - 60) < ahead[second]


def test_a_rise_is_followed_again_soon_after_a_restart() -> None:
    rates = np.concatenate((np.full(60, 100.0), 100.0 + 3.0 * np.arange(60)))
    _, ahead = expected(rates, restarted=80)
    assert (ahead[82:] > 1.15 * rates[82:]).all()


def test_a_step_is_not_taken_for_a_rise_without_end() -> None:
    _, ahead = expected(np.concatenate((np.full(60, 100.0), np.full(60, 300.0))))
    assert ahead.max() <= 301.0


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_rise(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(1000.0, 200.0, 1800)
    arrival, ahead = expected(noise)
    followed = ahead[60:] > 1.3 * arrival[60:]
    assert followed.mean() < 0.01
