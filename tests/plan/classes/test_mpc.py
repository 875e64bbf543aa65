"""One step of predictive control on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.serviceclasses import QosClass
from tidegate.model.fluid import Queues, needed_rates
from tidegate.plan.classes.mpc import ClassArrays, CpuGrants, Load, step
from tidegate.plan.proposersettings import PredictiveSettings

RULES = (
    QosClass(latency_s=0.3, weight=6),
    QosClass(latency_s=0.5, weight=3),
    QosClass(latency_s=0.8, weight=1, floor=0.2),
)
CLASSES = ClassArrays.of(RULES)


def load(backlog: list[float], rates: list[float], group: list[int], row_s: float = 0.001) -> Load:
    count = len(rates)
    expected = np.repeat(np.array(rates)[:, None], 5, axis=1)
    return Load(
        np.array(backlog), expected, np.array(rates), np.full(count, row_s), np.array(group), np.full(count, np.inf)
    )  # fmt: skip


def decide(seen: Load, cpus: float, demand_cap: float = 1.0) -> CpuGrants:
    return step(seen, CLASSES, PredictiveSettings(), cpus, interval_s=1.0, demand_cap=demand_cap)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 1000), st.integers(0, 2)), min_size=1, max_size=20),
    st.floats(0.1, 5.0),
)
def test_a_grant_stays_within_the_host_and_starves_nobody(apps: list[tuple[float, float, int]], cpus: float) -> None:
    backlog, rates, group = (list(column) for column in zip(*apps, strict=True))
    grant = decide(load(backlog, rates, group), cpus)
    assert (grant.cpus <= grant.needed_cpus + 1e-9).all()
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
    assert not grant.short
    assert np.isinf(grant.admission_rows).all()


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
        queues = Queues(np.array([rows]), expected, np.array([rate]), group)
        return float(needed_rates(queues, aim, back, 1.0)[0])

    assert need(backlog + more) >= need(backlog) - 1e-9
    assert need(backlog) <= backlog + rate + 1e-9


def test_the_needed_rate_brings_the_wait_to_its_set_point() -> None:
    """A backlog of three seconds; the rate is asked for anew in every step, and the first step of it applied."""
    queued, rate, aim_s = 300.0, 100.0, 0.5
    served = rate
    for _ in range(8):
        expected = np.full((1, 5), rate)
        queues = Queues(np.array([queued]), expected, np.array([served]), np.zeros(1, dtype=np.int64))
        served = float(needed_rates(queues, np.array([aim_s]), np.array([2.0]), 1.0)[0])
        queued = max(0.0, queued + rate - served)
    assert queued / served <= aim_s * 1.1
