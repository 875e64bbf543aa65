"""Bulk service and the paper's queueing model against exact formulas, event-true queues, plant and micro-batches."""

from __future__ import annotations

import heapq
from math import factorial, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.adapters.sim.plant import Link, Plant, PlantTask
from tidegate.domain.cost import BatchCost
from tidegate.load.profile import Constant
from tidegate.model.bulkresponse import bulk_response, drain_s
from tidegate_lab.experiments.qos_queue import Queue, erlang_c

ALLEN_CUNNEEN_ERROR = 0.3
"""Of the mean wait, for queues that are neither M/M/N nor M/G/1, at utilisations from 0.7."""


def event_true_wait_s(rate: float, servers: int, gaps: np.ndarray, services: np.ndarray) -> float:
    """First come, first served, one row after the other."""
    free = [0.0] * servers
    now = waited = 0.0
    for gap, service in zip((gaps / rate).tolist(), services.tolist(), strict=True):
        now += gap
        start = max(now, free[0])
        waited += start - now
        heapq.heapreplace(free, start + service)
    return waited / len(gaps)


def gamma(random: np.random.Generator, cv: float, rows: int) -> np.ndarray:
    """Times of mean 1 with a coefficient of variation."""
    return random.gamma(1 / cv**2, cv**2, rows) if cv else np.ones(rows)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.99])
def test_one_exponential_server_is_exact(load: float) -> None:
    queue = Queue(rows_per_s=load, service_s=1.0, servers=1)
    assert queue.waiting_s == pytest.approx(load / (1 - load))
    assert queue.response_s == pytest.approx(1 / (1 - load))


@pytest.mark.parametrize(("servers", "load"), [(2, 0.5), (8, 0.8), (32, 0.95)])
def test_many_exponential_servers_are_exact(servers: int, load: float) -> None:
    offered = servers * load
    last = offered**servers / factorial(servers) / (1 - load)
    busy = last / (sum(offered**k / factorial(k) for k in range(servers)) + last)
    assert erlang_c(servers, offered) == pytest.approx(busy)
    assert Queue(offered, 1.0, servers).waiting_s == pytest.approx(busy / (servers * (1 - load)))


@pytest.mark.parametrize("load", [0.3, 0.8, 0.95])
def test_constant_service_halves_the_wait(load: float) -> None:
    assert Queue(load, 1.0, 1, service_cv=0).waiting_s == pytest.approx(load / (2 * (1 - load)))


@pytest.mark.parametrize(
    ("servers", "load", "arrival_cv", "service_cv"),
    [(1, 0.8, 1, 1), (4, 0.85, 1, 1.5), (4, 0.8, 0.7, 0.5), (2, 0.7, 1.4, 1)],
)
def test_allen_cunneen_stays_near_event_true_queues(
    servers: int, load: float, arrival_cv: float, service_cv: float
) -> None:
    random, rows = np.random.default_rng(3), 60_000
    gaps, services = gamma(random, arrival_cv, rows), gamma(random, service_cv, rows)
    measured_s = event_true_wait_s(servers * load, servers, gaps, services)
    model = Queue(servers * load, 1.0, servers, service_cv, arrival_cv)
    assert model.waiting_s == pytest.approx(measured_s, rel=ALLEN_CUNNEEN_ERROR)


@pytest.mark.slow
def test_the_plant_waits_like_constant_service() -> None:
    """Poisson rows at a task of one CPU: a row leaves the fluid plant half a service early and a step late."""
    service_s, step_s, load = 0.05, 0.005, 0.8
    plant = Plant([PlantTask("t", 0, cost=(service_s,), cap=1.0)], [Link(child=0)], capacity=[[1.0]], segments=1024)
    plant.start(0)
    plant.place(0, host=0)
    plant.advance(np.random.default_rng(1).poisson(load / service_s * step_s, (200_000, 1)).astype(float), step_s)
    model = Queue(load / service_s, service_s, 1, service_cv=0)
    mean_s = plant.latencies(0).mean_s
    assert mean_s is not None
    assert mean_s - step_s + service_s / 2 == pytest.approx(model.response_s, rel=0.1)


def test_quantiles_of_the_wait_are_those_of_an_exponential_queue() -> None:
    random, rows, load = np.random.default_rng(5), 100_000, 0.8
    free = now = 0.0
    waits = []
    for gap, service in zip(
        random.exponential(1 / load, rows).tolist(), random.exponential(1, rows).tolist(), strict=True
    ):
        now += gap
        waits.append(max(0.0, free - now))
        free = max(now, free) + service
    assert Queue(load, 1.0, 1).waiting_quantile_s(0.99) == pytest.approx(np.quantile(waits, 0.99), rel=0.15)


@settings(max_examples=40)
@given(st.integers(1, 64), st.floats(0.01, 3.0))
def test_no_steady_state_from_full_utilisation_on(servers: int, load: float) -> None:
    queue = Queue(servers * load, 1.0, servers)
    assert (queue.waiting_s == inf) == (queue.utilisation >= 1)
    assert queue.waiting_s >= 0


@settings(max_examples=40)
@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(1e-3, 1e4))
def test_a_backlog_drains_by_what_is_spare(backlog: float, arrival: float, service: float) -> None:
    time_s = drain_s(backlog, arrival, service)
    if np.isfinite(time_s):
        assert time_s * (service - arrival) == pytest.approx(backlog, rel=1e-6, abs=1e-6)
    else:
        assert arrival >= service


@pytest.mark.parametrize(("rate", "interval_s"), [(60, 5.0), (150, 5.0), (350, 1.0)])
def test_micro_batches_take_half_an_interval_and_their_batch(rate: float, interval_s: float) -> None:
    """Against the simulator's own micro-batches, which know nothing of this model."""
    job = SimApplication(
        "job",
        Constant(rate),
        interval_s=interval_s,
        overhead_s=0.4,
        operators=(SimOperator("work", 0.005, parallelism=64),),
    )
    cluster = SimCluster([job], executors=1, slots_per_executor=2, startup_s=0.001, warmup_s=0.001, noise=0.0, seed=2)
    cluster.clock.sleep_until(200.0)
    measured = cluster.gates[0].latencies
    model = bulk_response(rate, BatchCost(0.0, 0.005, 0.4), slots=2, interval_s=interval_s)
    assert measured.mean_s == pytest.approx(model.mean_s, rel=0.1)
    assert measured.quantile_s(0.99) == pytest.approx(model.quantile_s(0.99), rel=0.15)


def test_a_batch_query_that_cannot_keep_up_has_no_response() -> None:
    assert bulk_response(500, BatchCost(0.0, 0.005, 0.4), slots=2, interval_s=1.0).mean_s == inf
