"""Arrivals in buckets: rates from totals, a path without a jump, restarts, gaps, and the peak of every day."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tidegate.evaluate.forecast import ArrivalForecaster
from tidegate.evaluate.forecast.buckets import Buckets
from tidegate.evaluate.forecast.series import read_series

DATA = Path(os.environ.get("TIDEGATE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def rates(buckets: Buckets, told: list[tuple[float, float]]) -> list[float]:
    found: list[float] = []
    for now_s, total in told:
        for closed in buckets.tell(now_s, np.array([0]), np.array([total])):
            found += closed.rate.tolist()
    return found


def fresh() -> Buckets:
    buckets = Buckets(5.0)
    buckets.add(np.array([0.0]))
    return buckets


def test_totals_at_odd_times_become_rates() -> None:
    told = [(0.7 * step, 100.0 * 0.7 * step) for step in range(40)]
    found = rates(fresh(), told)
    assert found == pytest.approx([100.0] * len(found))
    assert len(found) == 5


def test_a_step_longer_than_a_bucket_closes_several() -> None:
    assert rates(fresh(), [(0.0, 0.0), (5.0, 50.0), (20.0, 650.0)]) == pytest.approx([10.0, 40.0, 40.0, 40.0])


def test_a_restart_from_zero_costs_one_bucket() -> None:
    told = [(float(second), 100.0 * second if second < 12 else 100.0 * (second - 12)) for second in range(26)]
    found = rates(fresh(), told)
    assert np.isnan(found[2])
    assert [rate for rate in found if not np.isnan(rate)] == pytest.approx([100.0] * 4)


def test_what_came_in_a_long_gap_is_not_known() -> None:
    closed = fresh()
    rates(closed, [(0.0, 0.0), (5.0, 50.0)])
    gap = closed.tell(62.0, np.array([0]), np.array([1000.0]))
    assert [(part.rate.tolist(), part.skipped.tolist()) for part in gap] == [
        ([pytest.approx(np.nan, nan_ok=True)], [10])
    ]


def test_buckets_of_many_applications_do_not_end_together() -> None:
    arrivals = ArrivalForecaster()
    names = [f"application {number}" for number in range(200)]
    ends = []
    for second in range(20):
        before = arrivals._fine.age.copy() if second else np.zeros(200)
        arrivals.tell(float(second), names, np.full(200, 10.0 * second))
        ends.append(int((arrivals._fine.age > before).sum()))
    assert max(ends[12:]) < 80, "no step closes the buckets of all"
    assert min(ends[12:]) > 10


def seconds(arrivals: ArrivalForecaster, first: int, last: int) -> None:
    for second in range(first, last):
        arrivals.tell(float(second), ["steady", "ramp"], [300.0 * second, 2.0 * second**2])


def test_the_path_has_no_jump_and_a_band_around_it() -> None:
    arrivals = ArrivalForecaster()
    seconds(arrivals, 0, 900)
    path = arrivals.path([0, 1], horizon_s=600, step_s=5)
    assert path.mean.shape == path.trusted.shape == (2, 120)
    assert (path.lower <= path.mean + 1e-9).all()
    assert (path.mean <= path.upper + 1e-9).all()
    assert path.mean[0] == pytest.approx(np.full(120, 300.0), rel=0.02)
    assert np.abs(np.diff(path.mean, axis=1)).max() < 0.02 * 3600, "a step of the path is small against its level"
    assert path.mean[1, 10] > 3600, "a ramp goes on"
    assert not path.trusted[0].any(), "nothing beats the last value of a constant"


def test_an_application_that_was_never_counted_is_not_guessed() -> None:
    arrivals = ArrivalForecaster()
    arrivals.tell(0.0, ["new"], [np.nan])
    path = arrivals.path([0], 60, 10)
    assert np.isnan(path.mean).all()
    assert not path.trusted.any()


def test_saved_and_restored_it_goes_on_bit_for_bit() -> None:
    whole, first = ArrivalForecaster(), ArrivalForecaster()
    seconds(whole, 0, 400)
    seconds(first, 0, 400)
    again = ArrivalForecaster.from_state(first.state())
    for arrivals in (whole, again):
        seconds(arrivals, 400, 700)
        arrivals.tell(700.0, ["ramp", "late"], [2.0 * 700**2, 5.0])
        arrivals.tell(730.0, ["ramp", "late"], [2.0 * 730**2, 50.0])
    a, b = whole.path([0, 1], 3600, 60), again.path([0, 1], 3600, 60)
    for name in ("mean", "lower", "upper", "trusted"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    one, two = whole.state(), again.state()
    assert all(np.array_equal(one[key], two[key], equal_nan=one[key].dtype.kind == "f") for key in one)


def test_those_gone_for_long_are_forgotten() -> None:
    arrivals = ArrivalForecaster(forget_after_s=100.0)
    arrivals.tell(0.0, ["gone", "here"], [0.0, 0.0])
    arrivals.tell(50.0, ["here"], [500.0])
    assert len(arrivals.state()["names"]) == 2
    arrivals.tell(200.0, ["here", "new"], [2000.0, 0.0])
    assert arrivals.state()["names"].tolist() == ["here", "new"]


def minutes(rate: np.ndarray, until: int, horizon_s: float = 3600.0) -> tuple[ArrivalForecaster, np.ndarray]:
    """Told a total at each minute's end."""
    arrivals = ArrivalForecaster()
    totals = np.cumsum(rate)
    for minute in range(until):
        arrivals.tell(60.0 * (minute + 1), ["app"], [float(totals[minute])])
    return arrivals, arrivals.path([0], horizon_s, 60.0).mean[0]


@pytest.mark.slow
def test_on_the_second_day_the_daily_peak_is_expected() -> None:
    rng = np.random.default_rng(7)
    minute = np.arange(2 * 1440)
    rate = 6000 + 60 * rng.normal(0, 5, len(minute)) + np.where((minute % 1440 >= 300) & (minute % 1440 < 360), 9000, 0)
    _, path = minutes(rate, 1440 + 270)  # half an hour before the peak of the second day
    assert path[5:25].mean() == pytest.approx(100, rel=0.2)
    assert path[38:55].mean() > 160, "the peak, from 100 to 250 rows per second, is seen coming"


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "worldcup98").is_dir(), reason="needs the World Cup trace (set TIDEGATE_DATA)")
def test_requests_to_the_world_cup_site_are_expected_an_hour_ahead() -> None:
    counts = read_series(DATA / "worldcup98" / "requests_per_minute.csv", "count").values[-1440 * 3 - 600 :]
    arrivals, totals, errors = ArrivalForecaster(), np.cumsum(counts), []
    for minute in range(len(counts) - 60):
        arrivals.tell(60.0 * (minute + 1), ["site"], [float(totals[minute])])
        if minute >= 2 * 1440 + 600 and minute % 10 == 0:
            came = counts[minute + 51 : minute + 61].mean() / 60
            said = arrivals.path([0], 3600, 600).mean[0, -1]
            errors.append((said - came, counts[minute - 9 : minute + 1].mean() / 60 - came))
    ours, last = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < 0.95 * last


def test_recent_arrivals_are_told_oldest_first_and_none_of_strangers() -> None:
    arrivals = ArrivalForecaster()
    total = 0.0
    for second in range(121):
        arrivals.tell(float(second), ["orders"], [total])
        total += 100.0 if second < 60 else 300.0
    recent = arrivals.recent(0, 30.0)
    assert recent == pytest.approx(np.full(6, 300.0), rel=1e-3)
    assert arrivals.recent(0, 3600.0)[0] == pytest.approx(100.0, rel=1e-3)
    assert len(arrivals.recent(0, 3600.0)) <= 24
    assert not len(arrivals.recent(1, 30.0))
