"""The plant's model on cases that can be computed by hand, or by brute force."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.adapters.sim.plant import NOWHERE, Link, Plant, PlantTask
from tidegate.domain import InvalidInput


def one_task(rows_per_step: float, segments: int = 128) -> Plant:
    plant = Plant([PlantTask("t", 0, cost=(1.0,))], [Link(0)], [[rows_per_step]], segments=segments)
    plant.start(0)
    plant.place(0, 0)
    return plant


def column(*rows: float) -> np.ndarray:
    return np.array(rows, dtype=np.float64).reshape(-1, 1)


def test_fifo_latency_by_hand() -> None:
    plant = one_task(rows_per_step=10)
    plant.advance(column(30, 5, 0, 0, 0), step_s=1.0)
    # 10 rows leave after 1, 2 and 3 s; the 5 that came in the second step leave after the fourth, 3 s old.
    latencies = plant.latencies(0)
    assert latencies.rows == pytest.approx(35)
    assert [latencies.quantile_s(share) for share in (0.28, 0.3, 0.57, 0.58, 1.0)] == [1.0, 2.0, 2.0, 3.0, 3.0]
    assert latencies.mean_s == pytest.approx((10 * 1 + 10 * 2 + 10 * 3 + 5 * 3) / 35)


@settings(max_examples=60)
@given(
    arrivals=st.lists(st.integers(0, 25), min_size=1, max_size=60),
    capacity=st.integers(1, 12),
    segments=st.sampled_from([8, 256]),
)
def test_latencies_equal_those_of_single_rows(arrivals: list[int], capacity: int, segments: int) -> None:
    queue: deque[int] = deque()
    ages: list[int] = []
    padded = arrivals + [0] * (sum(arrivals) // capacity + 1)
    for step, count in enumerate(padded):
        queue.extend([step] * count)
        ages.extend(step + 1 - queue.popleft() for _ in range(min(capacity, len(queue))))
    plant = one_task(capacity, segments)
    plant.advance(column(*padded), step_s=1.0)
    latencies = plant.latencies(0)
    assert latencies.rows == pytest.approx(len(ages))
    if not ages:
        return
    assert latencies.mean_s == pytest.approx(np.mean(ages))  # merged segments keep the mean exactly
    if segments == 256:
        assert latencies.max_s == pytest.approx(max(ages))
        for share in (0.1, 0.5, 0.9, 0.99):
            exact = np.quantile(ages, share, method="inverted_cdf")
            assert latencies.quantile_s(share) == pytest.approx(exact, rel=0.06)


def test_queue_of_poisson_arrivals_is_that_of_m_d_1() -> None:
    """Poisson rows, one served a step: mean queue ρ²/(2(1−ρ)) after service, so by Little W = Δt + that/λ."""
    load, step_s, steps = 0.8, 0.01, 300_000
    arrivals = np.random.default_rng(5).poisson(load, steps).astype(np.float64)
    plant = one_task(rows_per_step=1 / step_s)
    plant.advance(arrivals.reshape(-1, 1), step_s)
    waiting_rows = load**2 / (2 * (1 - load))
    assert plant.latencies(0).mean_s == pytest.approx(step_s * (1 + waiting_rows / load), rel=0.05)


def two_tasks(capacity: list[list[float]], costs: list[tuple[float, ...]], **kind: float) -> Plant:
    plant = Plant(
        [PlantTask(f"t{i}", i, cost=cost, **kind) for i, cost in enumerate(costs)], [Link(0), Link(1)], capacity
    )  # type: ignore[arg-type]
    for task in (0, 1):
        plant.start(task)
        plant.place(task, 0)
    return plant


def test_a_host_that_is_not_overloaded_gives_what_is_needed() -> None:
    plant = two_tasks([[10.0]], [(1.0,), (1.0,)])
    plant.advance(np.array([[7.0, 3.0]]), 1.0)
    assert plant.processed().tolist() == [7.0, 3.0]


def test_an_overloaded_host_is_shared_in_proportion_to_demand() -> None:
    plant = two_tasks([[10.0]], [(1.0,), (1.0,)])
    plant.advance(np.array([[30.0, 10.0]]), 1.0)
    assert plant.processed().tolist() == [7.5, 2.5]
    assert plant.queued().tolist() == [22.5, 7.5]
    assert plant.state.recent_peak.tolist() == [4.0]
    assert plant.state.recent_used.tolist() == [[10.0]]


def test_any_resource_can_be_the_one_that_is_short() -> None:
    plant = two_tasks([[100.0, 4.0]], [(1.0, 0.5), (1.0, 0.0)])
    plant.advance(np.array([[20.0, 20.0]]), 1.0)
    assert plant.processed().tolist() == [8.0, 20.0]  # 4 of the 10 units that task 0 asks of the second resource


def test_a_task_uses_no_more_cpu_than_its_cap() -> None:
    plant = two_tasks([[10.0]], [(1.0,), (1.0,)], cap=2.0)
    plant.advance(np.array([[30.0, 1.0]]), 1.0)
    assert plant.processed().tolist() == [2.0, 1.0]


def test_rows_reach_the_child_in_the_next_step_and_later_over_a_distance() -> None:
    tasks = [PlantTask("a", 0, cost=(0.1,)), PlantTask("b", 0, cost=(0.1,))]
    plant = Plant(tasks, [Link(0), Link(1, parent=0, weight=2.0, delay_ticks=3)], [[10.0]])
    for task in (0, 1):
        plant.start(task)
        plant.place(task, 0)
    plant.advance(column(5.0), 1.0)
    assert plant.ledger().flying.tolist() == [0.0, 10.0]
    plant.advance(column(0.0, 0.0, 0.0), 1.0)
    assert plant.processed().tolist() == [5.0, 0.0]
    plant.advance(column(0.0), 1.0)
    assert plant.processed().tolist() == [5.0, 10.0]
    assert plant.latencies(0).quantile_s(0.5) == pytest.approx(5.0)


def test_two_inputs_have_two_queues_served_in_proportion() -> None:
    tasks = [PlantTask("a", 0, cost=(0.0,)), PlantTask("b", 0, cost=(0.0,)), PlantTask("join", 0, cost=(1.0,))]
    plant = Plant(tasks, [Link(0), Link(1), Link(2, parent=0), Link(2, parent=1)], [[8.0]])
    for task in range(3):
        plant.start(task)
        plant.place(task, 0)
    plant.advance(np.array([[12.0, 4.0], [0.0, 0.0]]), 1.0)
    assert plant.processed()[2] == pytest.approx(8.0)
    assert plant.state.ripe_rows.tolist() == [0.0, 0.0, 6.0, 2.0]


def test_an_unplaced_task_queues_and_a_placed_one_starts_after_its_delay() -> None:
    plant = one_task(10)
    plant.place(0, NOWHERE)
    plant.advance(column(4.0, 4.0), 1.0)
    assert plant.queued().tolist() == [8.0]
    plant.place(0, 0, delay_s=2.0, step_s=1.0)
    plant.advance(column(0.0, 0.0), 1.0)
    assert plant.queued().tolist() == [8.0]
    plant.advance(column(0.0), 1.0)
    assert plant.queued().tolist() == [0.0]


def test_a_killed_task_drops_its_rows_and_says_so() -> None:
    plant = one_task(1)
    plant.advance(column(4.0), 1.0)
    plant.kill(0)
    plant.advance(column(9.0), 1.0)
    ledger = plant.ledger()
    assert (ledger.received[0], ledger.processed[0], ledger.dropped[0], ledger.queued[0]) == (4.0, 1.0, 3.0, 0.0)


@pytest.mark.parametrize("cost", [-1.0, float("nan")])
def test_impossible_costs_are_refused(cost: float) -> None:
    with pytest.raises(InvalidInput, match="task t: costs and caps must be at least 0"):
        PlantTask("t", 0, cost=(cost,))


@pytest.mark.parametrize("rows", [-1.0, float("nan"), float("inf")])
def test_impossible_arrivals_are_refused(rows: float) -> None:
    with pytest.raises(InvalidInput, match="arrivals must be finite numbers of rows"):
        one_task(1).advance(column(1.0, rows), 1.0)
