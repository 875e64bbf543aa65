"""Lower bounds: never above the optimum, and each strong where it should be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.placement import Host, Problem, Task, lower_bound
from tidegate.placement.bounds import big_item_bound, clique_bound, cover_bound, load_bound, rounding_bound
from tidegate.placement.hostload import flatten

from .problems import fewest_hosts, problems


@settings(max_examples=60, derandomize=True)
@given(problem=problems(max_tasks=5, max_hosts=4))
def test_no_bound_exceeds_the_optimum(problem: Problem) -> None:
    optimum = fewest_hosts(problem)
    if optimum is not None:
        assert lower_bound(problem) <= optimum


@pytest.mark.slow
@settings(max_examples=100, derandomize=True)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_the_scalar_bounds_are_valid_and_no_weaker_than_the_sum(sizes: list[int]) -> None:
    problem = Problem.from_arrays(np.array(sizes, dtype=float)[:, None, None], np.full((len(sizes), 1), 20.0))
    optimum = fewest_hosts(problem)
    assert -(-sum(sizes) // 20) <= big_item_bound(np.array(sizes) / 20) <= optimum
    assert rounding_bound(np.array(sizes) / 20) <= optimum


def test_the_peak_of_the_sum_counts_not_the_sum_of_peaks() -> None:
    opposite = np.array([[[400.0, 100.0]], [[100.0, 400.0]]])
    assert lower_bound(Problem.from_arrays(opposite, np.full((2, 1), 500.0))) == 1
    together = np.array([[[400.0, 100.0]], [[400.0, 100.0]]])
    assert lower_bound(Problem.from_arrays(together, np.full((2, 1), 500.0))) == 2


def test_unlike_hosts_are_counted_largest_first() -> None:
    assert load_bound(np.array([[7.0]]), np.array([[1.0], [5.0], [2.0]])) == 2
    assert load_bound(np.array([[8.5]]), np.array([[1.0], [5.0], [2.0]])) == 4  # one more of the largest kind


def test_tasks_that_exclude_each_other_in_different_resources_need_a_host_each() -> None:
    demand = np.array([[0.6, 0.0, 0.6], [0.6, 0.6, 0.0], [0.0, 0.6, 0.6]])
    assert clique_bound(demand) == 3
    assert load_bound(demand, np.ones((3, 3))) == 2


def test_hosts_that_lack_one_resource_each_are_counted_together() -> None:
    hosts = tuple(Host(f"c{k}", {"cpu": 10, "memory": 1}) for k in range(4))
    hosts += tuple(Host(f"m{k}", {"cpu": 1, "memory": 10}) for k in range(4))
    tasks = tuple(Task(f"t{k}", {"cpu": 1, "memory": 1}) for k in range(20))
    flat = flatten(Problem(hosts, tasks))
    assert load_bound(flat.demand, flat.room) == 2
    assert cover_bound(flat) == 4
