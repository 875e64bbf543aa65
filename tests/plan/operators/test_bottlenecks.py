"""Metrics, bottleneck times, levels and diagnosis."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.operators.worlds import batch, metrics_of, operator
from tidegate.domain import ApplicationSample, DriverTimes
from tidegate.evaluate.bottleneck import (
    BottleneckKind,
    Cause,
    Links,
    Rescaling,
    TaskLimits,
    best_rescaling,
    bottleneck_time,
    diagnose,
    held_slots,
    learn_links,
    worst_operator,
)
from tidegate.evaluate.bottleneck.metrics import aggregate


def test_metrics_of_an_interval() -> None:
    metrics = metrics_of(
        operator("split", rows_out=800),
        operator("count", parallelism=2, busy_s=1.0, execute_latency_s=0.5, rows_in=800, stateful=True, state_rows=40),
    )
    split, count = metrics.operators
    assert split.service_s_per_row == pytest.approx(0.01)
    assert split.selectivity == pytest.approx(8)
    assert count.cpu_s_per_row == pytest.approx(1 / 800)
    assert metrics.batch_s == pytest.approx(1.7)
    assert metrics.execute_latency_s == pytest.approx(1.5)
    assert metrics.window_s == pytest.approx(2 * 4 + 1.7)
    assert count.capacity == pytest.approx(5 * 1.0 / (metrics.window_s * 2))
    assert held_slots([batch(number, operator("split")) for number in range(5)]) == pytest.approx(5 * 1.0 / 9.2)
    assert metrics.process_latency_s is not None
    assert split.process_latency_s == pytest.approx(metrics.process_latency_s - 0.5), "count comes after it"
    assert metrics.state_rows == 40


def test_cold_and_empty_batches_and_other_plans_are_left_out() -> None:
    made = (
        batch(0, operator("old")),
        batch(1, operator("work"), warming=True),
        batch(2, operator("work", busy_s=2.0)),
        batch(3, operator("work"), rows=0),
        batch(4, operator("work", busy_s=4.0)),
    )
    metrics = aggregate(ApplicationSample("app", made, 200.0, 1.0), made)
    assert metrics is not None
    assert metrics.batches == 2
    assert metrics.operators[0].busy_s == pytest.approx(3.0)
    assert aggregate(ApplicationSample("app", (), None, 1.0), made[:0]) is None


def test_bottleneck_time_is_the_larger_of_compute_and_communication() -> None:
    metrics = metrics_of(operator("a", parallelism=4, busy_s=4.0, communication_s=3.0, fetch_wait_s=2.0, bytes_in=1000,
                                  bytes_out=500))  # fmt: skip
    time = bottleneck_time(metrics.operators[0], slots=8)
    assert time.compute_s == pytest.approx(1.0 / 4)
    assert time.communication_s == pytest.approx(3.0 / 4), "bytes over measured bandwidth, in and out"
    assert time.kind is BottleneckKind.COMMUNICATION
    assert bottleneck_time(metrics.operators[0], slots=2).communication_s == pytest.approx(3.0 / 2), "two slots only"


def shuffled(bytes_in: int, waited_s: float, links: Links | None = None) -> float:
    """T_comm of five batches in which four tasks moved so many bytes and waited so long."""
    stage = operator(
        "a", parallelism=4, busy_s=20.0, communication_s=waited_s, fetch_wait_s=waited_s, bytes_in=bytes_in
    )
    made = tuple(batch(number, stage) for number in range(5))
    metrics = aggregate(ApplicationSample("app", made, made[-1].committed_s, 1.0), made, links)
    assert metrics is not None
    return bottleneck_time(metrics.operators[0], slots=8).communication_s


def test_twice_the_bytes_take_twice_the_time_on_an_unchanged_link() -> None:
    links = Links()
    learn_links(links, batch(0, operator("a", communication_s=2.0, fetch_wait_s=2.0, bytes_in=1000, busy_s=2.0)))
    assert links.incoming == {"a": pytest.approx(500.0)}
    assert shuffled(1000, 2.0, links) == pytest.approx(1000 / 500 / 4)
    assert shuffled(2000, 4.0, links) == pytest.approx(2 * shuffled(1000, 2.0, links))
    assert shuffled(2000, 2.0, links) == pytest.approx(2 * shuffled(1000, 2.0, links)), "whatever this batch waited"


@settings(max_examples=30)
@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=60))
def test_a_link_is_known_within_what_was_seen_of_it(noise: list[float]) -> None:
    links, seen = Links(), []
    for number, factor in enumerate(noise):
        stage = operator("a", busy_s=9.0, communication_s=factor, fetch_wait_s=factor, bytes_in=1000)
        learn_links(links, batch(number, stage))
        seen.append(1000 / factor)
        assert min(seen) * 0.999 <= links.incoming["a"] <= max(seen) * 1.001


def test_a_link_that_slowed_down_is_believed_slowly_and_one_odd_batch_hardly_at_all() -> None:
    def crossed(links: Links, waited_s: float, batches: int) -> float:
        for number in range(batches):
            stage = operator("a", busy_s=99.0, communication_s=waited_s, fetch_wait_s=waited_s, bytes_in=1000)
            learn_links(links, batch(number, stage))
        return links.incoming["a"]

    links = Links()
    assert crossed(links, 1.0, 20) == pytest.approx(1000)
    assert crossed(links, 0.001, 1) < 1200, "a fetch that did not wait"
    assert crossed(links, 10.0, 10) > 600
    assert crossed(links, 10.0, 300) == pytest.approx(100, rel=0.05)


def test_the_slowest_partition_counts() -> None:
    even = metrics_of(operator("a", parallelism=4, busy_s=4.0, longest_task_s=1.1))
    skewed = metrics_of(operator("a", parallelism=4, busy_s=4.0, longest_task_s=3.0))
    assert bottleneck_time(even.operators[0], 4).time_s == pytest.approx(1.0), "below 1.5 times the mean it is noise"
    assert bottleneck_time(skewed.operators[0], 4).time_s == pytest.approx(3.0)


@settings(max_examples=30)
@given(busy=st.lists(st.floats(0.01, 50), min_size=1, max_size=6), tasks=st.integers(1, 40), slots=st.integers(1, 20))
def test_a_rescaling_stays_within_the_slots_and_never_loses_time(busy: list[float], tasks: int, slots: int) -> None:
    stages = [
        operator(f"op{place}", parallelism=tasks, busy_s=value, execute_latency_s=value / min(tasks, slots))
        for place, value in enumerate(busy)
    ]
    rescaling = best_rescaling(metrics_of(*stages), slots, 0.02, TaskLimits(slots))
    assert all(1 <= target <= slots for target in rescaling.after.values())
    assert rescaling.gain_s >= 0
    assert all(rescaling.after[name] != rescaling.before[name] for name in rescaling.after)


def test_stateful_operators_change_together() -> None:
    stages = (
        operator("a", stateful=True),
        operator("b"),
        operator("c", stateful=True, busy_s=0.1, execute_latency_s=0.1),
    )
    rescaling = best_rescaling(metrics_of(*stages), 6, 0.02, TaskLimits(6))
    assert rescaling.after["a"] == rescaling.after["c"] > 1
    kept = best_rescaling(metrics_of(*stages), 6, 0.02, TaskLimits(6, frozen={"c"}))
    assert set(kept.after) == {"b"}


def diagnosis_of(metrics, slots=6, useless=None, suffices=False):  # type: ignore[no-untyped-def]
    useless = useless or {}
    rescaling = best_rescaling(metrics, slots, 0.02, TaskLimits(slots, frozen=useless))
    return diagnose(metrics, worst_operator(metrics, slots), rescaling, slots, useless, suffices)


def test_causes() -> None:
    few = diagnosis_of(metrics_of(operator("a")))
    assert few.cause is Cause.FEW_TASKS
    assert "a is the bottleneck (compute" in few.text
    small = diagnosis_of(metrics_of(operator("a", parallelism=200, busy_s=4.0, execute_latency_s=0.7)))
    assert small.cause is Cause.SMALL_TASKS
    hot = operator("a", parallelism=6, busy_s=2.0, longest_task_s=1.5, execute_latency_s=1.5, slowest_task=3)
    skew = diagnosis_of(metrics_of(hot), slots=8)
    assert skew.cause is Cause.SKEW
    assert "partition 3" in skew.text
    full = diagnosis_of(metrics_of(operator("a", parallelism=6, busy_s=6.0, execute_latency_s=1.0)))
    assert full.cause is Cause.SLOTS
    assert "more executors" in full.text
    serial = diagnosis_of(metrics_of(operator("a")), useless={"a": "6 tasks did not help"})
    assert serial.cause is Cause.SERIAL
    assert "6 tasks did not help" in serial.text


def test_what_the_driver_does_is_not_the_tasks_fault() -> None:
    sink = metrics_of(operator("a"), duration_s=4.0, overhead_s=3.0, driver=DriverTimes(0.1, 0.1, 0.1, 2.7))
    assert diagnosis_of(sink).cause is Cause.SLOW_SINK
    assert diagnosis_of(sink, suffices=True).cause is Cause.FEW_TASKS, "where tasks are enough, they are the cure"
    planning = metrics_of(operator("a"), duration_s=4.0, overhead_s=3.0, driver=DriverTimes(2.0, 0.5, 0.5, 0.0))
    assert diagnosis_of(planning).cause is Cause.DRIVER
    idle = metrics_of(operator("a", busy_s=0.1, execute_latency_s=0.1), interval_s=10.0)
    assert diagnosis_of(idle).cause is Cause.TRIGGER


def test_a_gain_too_small_for_a_restart_is_no_cure() -> None:
    metrics = metrics_of(operator("a", parallelism=5, busy_s=5.0, execute_latency_s=1.0))
    nothing = Rescaling({"a": 5}, {"a": 6}, {"a": 0.95}, 0.05)
    found = diagnose(metrics, worst_operator(metrics, 6), nothing, 6, {}, suffices=False)
    assert found.cause is Cause.NOTHING
    assert "too little" in found.text
