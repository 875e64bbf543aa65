"""A control step on arrays, and hosts that are divided by it against those that know no classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.errors import InvalidInput
from tidegate.domain.qos import PredictiveRule, QosClassRule
from tidegate.experiments.qos_world import PredictiveSharing, by_class, tenants
from tidegate.experiments.sensitivity import Erring, LastValue
from tidegate.forecast import Forecaster
from tidegate.model.fluid import longest_waits, needed_rates
from tidegate.planning.mpc import Classes, Grant, Load, step
from tidegate.sim.shared import Division, RoundRobin, SharedHosts, Tenants, View, WeightedFair

RULES = (
    QosClassRule(latency_s=0.3, weight=6),
    QosClassRule(latency_s=0.5, weight=3),
    QosClassRule(latency_s=0.8, weight=1, floor=0.2),
)
CLASSES = Classes.of(RULES)


def load(backlog: list[float], rates: list[float], group: list[int], row_s: float = 0.001) -> Load:
    count = len(rates)
    expected = np.repeat(np.array(rates)[:, None], 5, axis=1)
    return Load(
        np.array(backlog), expected, np.array(rates), np.full(count, row_s), np.array(group), np.zeros(count)
    )  # fmt: skip


def decide(seen: Load, cpus: float, demand_cap: float = 1.0) -> Grant:
    return step(seen, CLASSES, PredictiveRule(), cpus, interval_s=1.0, demand_cap=demand_cap)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 1000), st.integers(0, 2)), min_size=1, max_size=20),
    st.floats(0.1, 5.0),
)
def test_a_grant_stays_within_the_host_and_starves_nobody(apps: list[tuple[float, float, int]], cpus: float) -> None:
    backlog, rates, group = (list(column) for column in zip(*apps, strict=True))
    grant = decide(load(backlog, rates, group), cpus)
    assert (grant.cpus <= grant.needed_cpus + 1e-9).all()
    assert grant.shares.sum() == pytest.approx(1.0)
    assert (grant.shares > 0).all()
    assert (grant.admission_rows >= 1).all()
    if grant.short:
        assert grant.cpus.sum() == pytest.approx(0.9 * cpus, rel=1e-6)
        assert (grant.cpus[np.array(rates) > 1e-3] > 0).all()
    else:
        assert np.isinf(grant.admission_rows).all()


def test_what_is_short_is_taken_from_the_lightest_down_to_its_floor() -> None:
    grant = decide(load([0, 0, 2000], [400, 250, 600], [0, 1, 2]), cpus=1.0)
    assert grant.short
    assert np.isinf(grant.admission_rows[:2]).all()
    assert grant.admission_rows[2] < 600
    crushed = decide(load([0, 0, 2000], [900, 600, 600], [0, 1, 2]), cpus=1.0)
    assert crushed.cpus[2] == pytest.approx(0.2 * 0.6, rel=1e-6)


def test_it_leaves_well_alone_where_nothing_waits() -> None:
    grant = decide(load([0, 0, 0], [100, 100, 100], [0, 1, 2]), cpus=8.0)
    assert grant.alone
    assert np.isinf(grant.admission_rows).all()
    assert not decide(load([200, 0, 0], [100, 100, 100], [0, 1, 2]), cpus=8.0).alone


def test_a_saturated_host_is_asked_for_less() -> None:
    seen = load([0, 0, 500], [300, 200, 300], [0, 1, 2])
    assert decide(seen, 1.0, demand_cap=0.7).cpus.sum() == pytest.approx(0.63)
    assert decide(seen, 1.0).cpus[2] > decide(seen, 1.0, demand_cap=0.7).cpus[2]


@settings(max_examples=40)
@given(st.floats(0, 1000), st.floats(0, 1000), st.floats(1, 500))
def test_needs_grow_with_what_waits(backlog: float, more: float, rate: float) -> None:
    def need(rows: float) -> float:
        expected, aim, back = np.full((1, 5), rate), np.array([0.4]), np.array([0.8])
        group = np.zeros(1, dtype=np.int64)
        return float(needed_rates(np.array([rows]), expected, np.array([rate]), group, aim, back, 1.0)[0])

    assert need(backlog + more) >= need(backlog) - 1e-9
    assert need(backlog) <= backlog + rate + 1e-9


def test_the_needed_rate_brings_the_wait_to_its_set_point() -> None:
    """A backlog of three seconds; the rate is asked for anew in every step, and the first step of it applied."""
    queued, rate, aim_s = 300.0, 100.0, 0.5
    served = rate
    for _ in range(8):
        expected = np.full((1, 5), rate)
        arrays = (np.array([queued]), expected, np.array([served]), np.zeros(1, dtype=np.int64))
        served = float(needed_rates(*arrays, np.array([aim_s]), np.array([2.0]), 1.0)[0])
        queued = max(0.0, queued + rate - served)
    assert queued / served <= aim_s * 1.1


def test_waits_follow_the_fluid_queue() -> None:
    waits = longest_waits(np.array([0.0, 50.0]), np.array([[120.0, 80.0], [10.0, 10.0]]), np.array([100.0, 100.0]), 1.0)
    assert waits.tolist() == [0.2, 0.5]


def small() -> Tenants:
    return tenants(90, hosts=2, cpus=1.0, busy=0.9, rate=50.0, seed=4)


def bursting(of: Tenants, time_s: float) -> np.ndarray:
    return np.where((of.group == 2) & (time_s >= 20), 150.0, 50.0)


def test_classes_keep_their_targets_in_a_burst_of_the_lowest() -> None:
    of = small()
    seen = {}
    for name, policy in {"rr": RoundRobin(), "mpc": PredictiveSharing(of, 2, 1.0)}.items():
        record = SharedHosts(of, 2, 1.0, step_s=0.05, seed=4).run(lambda time_s: bursting(of, time_s), policy, 40)
        seen[name] = by_class(record, 20, 40)
    for name in ("q1", "q2"):
        assert seen["mpc"][name]["violations"] < 0.02
        assert seen["rr"][name]["violations"] > 0.3
    assert seen["mpc"]["q3"]["cpus"] > 0.3
    used = {name: sum(each["cpus"] for each in classes.values()) for name, classes in seen.items()}
    assert used["mpc"] == pytest.approx(used["rr"], rel=0.02)


@pytest.mark.parametrize("policy", ["rr", "fair", "mpc"])
def test_no_row_is_lost_and_no_host_overfull(policy: str) -> None:
    of = small()
    chosen = {
        "rr": RoundRobin(),
        "fair": WeightedFair(np.array([6.0, 3.0, 1.0])[of.group]),
        "mpc": PredictiveSharing(of, 2, 1.0),
    }[policy]
    hosts = SharedHosts(of, 2, 1.0, step_s=0.05, seed=1)
    record = hosts.run(lambda time_s: np.full(90, 80.0), chosen, 10)
    arrived = sum(interval.arrived_rows.sum() for interval in record)
    left = sum(latencies.rows for interval in record for latencies in interval.latencies)
    assert arrived == pytest.approx(left + record[-1].queued_rows.sum())
    assert max(interval.cpus.sum() for interval in record) <= 2.0 + 1e-6
    assert min(interval.cpus.sum() for interval in record[2:]) > 1.99  # overloaded hosts are never idle


def test_fair_shares_are_by_weight_among_those_who_wait() -> None:
    of = Tenants(np.zeros(3, dtype=np.int64), np.arange(3), np.full(3, 0.01), np.full(3, 1.0))
    hosts = SharedHosts(of, 1, 1.0, step_s=0.05, seed=1)
    record = hosts.run(lambda time_s: np.array([10.0, 400.0, 400.0]), WeightedFair(np.array([1.0, 3.0, 1.0])), 20)
    used = np.mean([interval.cpus for interval in record[5:]], axis=0)
    assert used == pytest.approx([0.1, 0.675, 0.225], abs=0.02)


class Capped:
    def divide(self, view: View) -> Division:
        return Division(None, caps=np.array([0.2, 1.0]), cpus=np.array([0.5]))


def test_caps_hold_whatever_is_idle() -> None:
    of = Tenants(np.zeros(2, dtype=np.int64), np.arange(2), np.full(2, 0.01), np.full(2, 1.0))
    record = SharedHosts(of, 1, 1.0, step_s=0.05, seed=1).run(lambda time_s: np.array([90.0, 10.0]), Capped(), 20)
    assert 0.15 < record[-1].cpus[0] <= 0.2 + 1e-9


def test_hosts_that_do_not_exist_are_refused() -> None:
    of = Tenants(np.array([1]), np.array([0]), np.array([0.01]), np.array([1.0]))
    with pytest.raises(InvalidInput, match="hosts 0 to 0"):
        SharedHosts(of, 1, 1.0)


@pytest.mark.parametrize(
    "forecaster",
    [LastValue(3, 4), Erring(lambda time_s: np.full(9, 10.0 + time_s), np.array([0, 4, 8]), 4, 0.5, False, 1)],
)
def test_forecasters_of_the_experiments_keep_the_port(forecaster: Forecaster) -> None:
    assert isinstance(forecaster, Forecaster)
    forecaster.observe([1.0, 2.0, 3.0])
    forecast = forecaster.forecast()
    assert forecast.mean.shape == (3, 4)
    assert (forecast.mean >= 0).all()
