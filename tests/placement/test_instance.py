"""The JSON form: what is read, what is written, and what is refused with all its errors."""

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tidegate.placement import Host, InvalidInstance, Problem, Task, read_instance, write_instance

from .problems import problems

GOOD: dict[str, Any] = {
    "hosts": [
        {"name": "a", "cpu": 10, "memory": 8, "region": "eu", "cost": 2},
        {"name": "b", "cpu": 20, "region": "us"},
    ],
    "tasks": [
        {"name": "x", "cpu": [1, 2, 3], "memory": 4, "traffic": {"y": 5}},
        {"name": "y", "cpu": 6, "topology": "app", "component": "count"},
    ],
    "current": {"x": "a"},
    "network": {"eu": {"us": 2.5}},
    "max_migrations": 1,
}


def broken(**changes: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(GOOD)), **changes}


def test_everything_that_may_be_given_is_read() -> None:
    problem = read_instance(GOOD)
    assert problem.resources == ("cpu", "memory")
    assert problem.demand[:, :, 2].tolist() == [[3, 4], [6, 0]]
    assert problem.capacity.tolist() == [[10, 8], [20, 0]]
    assert problem.separation.tolist() == [[0.5, 2.5], [2.5, 0.5]]
    assert problem.placed.tolist() == [0, -1]
    assert (problem.senders.tolist(), problem.receivers.tolist(), problem.rates.tolist()) == ([0], [1], [5])
    assert problem.max_migrations == 1


def test_hosts_may_be_given_by_count() -> None:
    problem = read_instance({"hosts": {"count": 3, "cpu": 5, "cost": 2}, "tasks": [{"name": "x", "cpu": 1}]})
    assert [(host.name, host.capacity, host.cost) for host in problem.hosts][2] == ("h2", {"cpu": 5.0}, 2)


@settings(max_examples=30, derandomize=True)
@given(problem=problems())
def test_writing_and_reading_gives_the_same_problem(problem: Problem) -> None:
    again = read_instance(json.loads(json.dumps(write_instance(problem))))
    assert np.array_equal(again.demand, problem.demand)
    assert np.array_equal(again.capacity, problem.capacity)
    assert np.array_equal(again.rates, problem.rates)
    assert again.hosts == problem.hosts
    assert write_instance(again) == write_instance(problem)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "an instance is an object"),
        ({}, "missing key 'hosts'"),
        (broken(extra=1), "unknown key 'extra'"),
        (broken(hosts=[]), "there are no hosts"),
        (broken(tasks=[]), "there are no tasks"),
        (broken(hosts={"count": 0, "cpu": 1}), "'count' must be a whole number"),
        (broken(hosts=[{"cpu": 1}]), "hosts[0] has no name"),
        (broken(hosts=[{"name": "a", "cpu": -1}]), "host 'a': cpu must not be negative"),
        (broken(hosts=[{"name": "a", "cpu": "2"}]), "host 'a': cpu must be a number"),
        (broken(hosts=[{"name": "a", "cpu": 9}, {"name": "a", "cpu": 9}]), "two hosts are named 'a'"),
        (broken(tasks=[{"name": "x", "cpu": float("nan")}]), "task 'x': cpu must be finite"),
        (broken(tasks=[{"name": "x", "cpu": [1, -2]}]), "task 'x': cpu at step 1 must not be negative"),
        (broken(tasks=[{"name": "x", "cpu": []}]), "task 'x': cpu has no values"),
        (broken(tasks=[{"name": "x", "cpu": True}]), "task 'x': cpu must be a number"),
        (
            broken(tasks=[{"name": "x", "cpu": [1, 2], "memory": [1, 2, 3]}]),
            "series of different length [2, 3]",
        ),
        (
            broken(tasks=[{"name": "x", "cpu": [1, 2]}, {"name": "y", "cpu": [1, 2, 3]}]),
            "series of different length",
        ),
        (broken(tasks=[{"name": "x", "cpus": 1}]), "task 'x': unknown key 'cpus'"),
        (broken(tasks=[{"name": "x", "cpu": 1, "traffic": {"z": 1}}]), "traffic to unknown task 'z'"),
        (
            broken(tasks=[{"name": "x", "cpu": 1, "traffic": {"x": -1}}]),
            "traffic to 'x' must not be negative",
        ),
        (broken(tasks=[{"name": "x", "cpu": [1, 21]}]), "task 'x' fits nowhere"),
        (broken(tasks=[{"name": "x", "cpu": 15, "memory": 8}]), "task 'x' fits nowhere"),
        (broken(current={"x": "nowhere"}), "task 'x' on unknown host 'nowhere'"),
        (broken(current={"z": "a"}), "current: unknown task 'z'"),
        (broken(network={"eu": {"mars": 1}}), "no host is in region 'mars'"),
        (broken(network={"eu": {"us": -1}}), "network distance 'eu' to 'us' must not be negative"),
        (broken(max_migrations=-1), "max_migrations must not be negative"),
        (broken(max_migrations=1.5), "max_migrations must be a whole number"),
    ],
)
def test_bad_input_is_named(document: object, message: str) -> None:
    with pytest.raises(InvalidInstance) as error:
        read_instance(document)
    assert any(message in found for found in error.value.messages), error.value.messages


def test_all_errors_are_reported_at_once() -> None:
    document = broken(junk=1, hosts=[{"name": "a", "cpu": -1}, {"name": "b", "cpu": 20}])
    document["tasks"] = [
        {"name": "x", "cpu": float("inf")},
        {"name": "y", "cpu": [1, -1], "traffic": {"nobody": 1}},
        {"name": "z", "cpu": 1, "traffic": {"nobody": 1}},
        {"cpu": 1},
    ]
    document["network"], document["current"] = {}, {}
    with pytest.raises(InvalidInstance) as error:
        read_instance(document)
    assert len(error.value.messages) == 6, error.value.messages


def test_the_error_is_a_value_error_that_travels_between_processes() -> None:
    error = InvalidInstance(["one", "two"])
    assert isinstance(error, ValueError)
    assert pickle.loads(pickle.dumps(error)).messages == ["one", "two"]


def test_parts_refuse_impossible_values() -> None:
    with pytest.raises(InvalidInstance, match="no resource"):
        Host("a", {})
    with pytest.raises(InvalidInstance, match="cost must not be negative"):
        Host("a", {"cpu": 1}, cost=-1)
    with pytest.raises(InvalidInstance, match="no name"):
        Task("", {"cpu": 1})
    with pytest.raises(InvalidInstance, match="no host offers gpu"):
        Problem((Host("a", {"cpu": 1}),), (Task("x", {"gpu": 1}),))


def test_arrays_cannot_be_changed_behind_the_problem() -> None:
    with pytest.raises(ValueError, match="read-only"):
        read_instance(GOOD).demand[0, 0, 0] = 7
