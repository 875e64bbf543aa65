"""Sharing a short host: the exact method, the paper's dynamic programme, and what floors promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_lab.experiments.qos_allocation import allocate, bellman, value_of

SIZES = st.integers(1, 8)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    count = draw(SIZES)
    needs = np.array(draw(st.lists(st.floats(0.0, 10.0), min_size=count, max_size=count)))
    weights = np.array(draw(st.lists(st.sampled_from([1.0, 3.0, 6.0]), min_size=count, max_size=count)))
    floors = needs * draw(st.floats(0.0, 0.3))
    return needs, weights, draw(st.floats(0.1, 40.0)), floors


@settings(max_examples=40)  # the first call compiles
@given(problems())
def test_no_more_than_needed_no_less_than_the_floor_and_nothing_left_over(problem: tuple) -> None:
    needs, weights, capacity, floors = problem
    granted = allocate(needs, weights, capacity, floors)
    assert (granted <= needs + 1e-9).all()
    assert granted.sum() == pytest.approx(min(capacity, needs.sum()), rel=1e-6, abs=1e-9)
    if floors.sum() <= capacity:
        assert (granted >= floors - 1e-9).all()
    else:
        assert (granted[floors > 1e-6] > 0).all()


@settings(max_examples=40)  # the first call compiles
@given(problems())
def test_nobody_lighter_gets_more_than_a_floor_while_somebody_heavier_is_short(problem: tuple) -> None:
    needs, weights, capacity, floors = problem
    granted = allocate(needs, weights, capacity, floors)
    for short in np.flatnonzero(granted < needs - 1e-6):
        lighter = weights < weights[short]
        assert (granted[lighter] <= floors[lighter] + 1e-6).all()


@settings(max_examples=40)
@given(problems())
def test_the_papers_recursion_agrees_within_its_discretisation(problem: tuple) -> None:
    needs, weights, capacity, floors = problem
    units = 120
    exact = allocate(needs, weights, capacity, floors)
    paper = bellman(needs, weights, capacity, floors, units)
    # Every application's need and floor is rounded to half a unit, and so is what is left for it.
    slack = 2 * len(needs) * weights.max() * capacity / units
    assert value_of(paper, needs, weights) == pytest.approx(value_of(exact, needs, weights), abs=slack + 1e-9)


def test_on_whole_units_both_are_equal() -> None:
    needs, weights = np.array([3.0, 5.0, 4.0, 2.0]), np.array([6.0, 3.0, 1.0, 1.5])
    exact = allocate(needs, weights, 9.0, floors=[0, 0, 1.0, 0])
    assert bellman(needs, weights, 9.0, floors=[0, 0, 1.0, 0], units=9).tolist() == exact.round(9).tolist()
    assert exact.round(9).tolist() == [3.0, 5.0, 1.0, 0.0]


def test_one_class_that_is_short_serves_as_many_as_possible_in_full() -> None:
    granted = allocate([1.0, 2.0, 30.0, 40.0], [1, 1, 1, 1], capacity=13.0)
    assert granted.round(6).tolist() == [1.0, 2.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("needs", "weights", "capacity"),
    [([1.0], [1.0, 2.0], 1.0), ([-1.0], [1.0], 1.0), ([1.0], [0.0], 1.0), ([1.0], [1.0], -1)],
)
def test_nonsense_is_refused(needs: list[float], weights: list[float], capacity: float) -> None:
    with pytest.raises(ValueError, match=r"weight|needs|capacity"):
        allocate(needs, weights, capacity)
