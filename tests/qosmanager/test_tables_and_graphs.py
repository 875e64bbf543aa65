"""QoS tables and graphs: what is refused, what they say over a window, and that memory stays bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.worlds import application, batch, steady
from tidegate.control.controller import Controller
from tidegate.control.policyfile import parse_model
from tidegate.domain import Decision, LatencySample, Observation, PolicyInvalid
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.policy import Policy
from tidegate.domain.qostables import QosGraph, QosRow
from tidegate.evaluate.measurement import MeasurementPlan, plan_measurements
from tidegate.evaluate.qos import QosMemory, evaluate, observe

WANTED = """
applications:
  app:
    qos_table:
      - {metric: latency_s, bound: 2, percentile: 0.9, window_s: 30}
      - {metric: service_s_per_row, operator: work, bound: 0.004}
      - {metric: throughput_rows_per_s, side: at least, bound: 100, percentile: 0.5}
    qos_graphs:
      - {metric: batch_duration_s, points: [[0.25, 1], [0.75, 0]], least: 0.6}
"""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("qos_table: [{metric: execute_latency_s, bound: 1}]", "is a metric of operators"),
        ("qos_table: [{metric: latency_s, operator: work, bound: 1}]", "operators have no latency_s"),
        ("qos_table: [{metric: happiness, bound: 1}]", "not 'happiness'"),
        ("qos_table: [{metric: latency_s}]", "bound"),
        ("qos_graphs: [{metric: latency_p99_s, points: [[2, 1], [1, 0]]}]", "must increase"),
        ("qos_graphs: [{metric: latency_p99_s, points: [[1, 1.5]]}]", "less than or equal to 1"),
        ("qos_graphs: [{metric: latency_p99_s, points: []}]", "points"),
        ("qos_graphs: [{metric: latency_s, points: [[1, 1]]}]", "_p99_s or latency_max_s"),
    ],
)
def test_what_cannot_be_measured_is_refused(wrong: str, said: str) -> None:
    with pytest.raises(PolicyInvalid, match=said):
        parse_model(f"applications: {{app: {{{wrong}}}}}", Policy, "policy.yaml")


@given(
    points=st.lists(st.tuples(st.integers(-50, 50), st.floats(0, 1)), min_size=1, unique_by=lambda point: point[0]),
    value=st.floats(-100, 100),
)
def test_a_graph_passes_through_its_points_and_stays_between_them(
    points: list[tuple[int, float]], value: float
) -> None:
    graph = QosGraph(metric="backlog_rows", points=tuple(sorted(points)))
    assert all(graph.utility(float(place)) == pytest.approx(utility) for place, utility in points)
    utilities = [utility for _, utility in points]
    assert min(utilities) - 1e-9 <= graph.utility(value) <= max(utilities) + 1e-9


def decided(observations: list[Observation]) -> list[Decision]:
    controller = Controller(parse_model(WANTED, Policy, "policy.yaml"))
    return [controller.step(observation) for observation in observations]


def test_rows_and_graphs_are_journalled_with_every_decision() -> None:
    last = decided(steady(200, 20, executors=1))[-1]
    met = {reading.objective.split(" ")[0]: reading for reading in last.qos}
    assert met["latency_s"].met is None, "nothing was measured of it"
    assert met["work.service_s_per_row"].met is False
    assert met["work.service_s_per_row"].value == pytest.approx(0.005)
    assert met["throughput_rows_per_s"].met is True
    graph = met["utility"]
    assert graph.met is False
    assert graph.score == pytest.approx(0.5)
    assert graph.value == pytest.approx(0.5)
    assert from_json(Decision, to_json(last)) == last


def test_the_latency_objective_is_read_out_when_it_is_missed() -> None:
    late = LatencySample(200, 11.0, 12.0, 13.0, 14.0)
    observations = [
        replace(seen, applications=(replace(sample, batches=(replace(sample.batches[0], latency=late),)),))
        for seen in steady(200, 20, executors=1)
        for sample in seen.applications
    ]
    last = decided(observations)[-1]
    assert last.qos[0].objective == "latency_s at most 10 for 99 % of 60 s"
    assert (last.qos[0].met, last.qos[0].value) == (False, 13.0)


def test_what_is_older_than_the_window_is_dropped_and_memory_stays_bounded() -> None:
    row = QosRow(metric="batch_duration_s", bound=1.0, percentile=0.9, window_s=30)
    memory = QosMemory()
    for step in range(2000):
        slow = step < 1000
        made = batch(step, step * 0.1, 10, duration_s=5.0 if slow else 0.5)
        observe(memory, application((made,)), [row], made.committed_s)
        assert len(memory.windows[row.key]) <= 13
    assert evaluate(memory, "app", row).score == 1.0
    observe(memory, application(()), [], 300.0)
    assert not memory.windows


def test_every_operator_is_measured_once_and_only_where_it_runs() -> None:
    policy = parse_model(WANTED, Policy, "policy.yaml")
    plan = plan_measurements(policy, {"app": ["b", "a"], "other": ["b"]})
    assert {item.application for item in plan.for_host("a").items} == {"app"}
    assert {item.application for item in plan.for_host("b").items} == {"app", "other"}
    assert not plan.for_host("c").items
    asked = {(item.application, item.operator): item.asked for item in plan.items}
    assert asked["app", "work"] == ("service_s_per_row",)
    assert set(asked["app", None]) == {"latency_s", "throughput_rows_per_s", "batch_duration_s"}
    assert asked["other", None] == asked["other", "*"] == (), "nobody asked for more than the core"
    assert all(len(set(item.metrics)) == len(item.metrics) for item in plan.items)
    assert from_json(MeasurementPlan, to_json(plan)) == plan, "it can be sent"
    with pytest.raises(ValueError, match="twice"):
        MeasurementPlan(1.0, plan.items + plan.items)
