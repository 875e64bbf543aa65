"""Criteria, constraints, weighted sums, trade-offs and traffic."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.placement import (
    CRITERIA,
    Constraint,
    Host,
    Problem,
    Task,
    Tidegate,
    WeightedCriteria,
    at_most,
    capacity,
    evaluate,
    pareto_front,
)
from tidegate.placement.colocate import colocate
from tidegate.placement.genetic import fittest, generational, move_or_swap, uniform_crossover
from tidegate.placement.hostload import excess, flatten
from tidegate.placement.pareto import front_numbers, nondominated_rank, nsga2

from .problems import problems, waves

RNG = np.random.default_rng(0)


@settings(max_examples=40, derandomize=True)
@given(problem=problems(), seed=st.integers(0, 9))
def test_criteria_agree_with_the_measures_of_the_schedule(problem: Problem, seed: int) -> None:
    hosts = np.random.default_rng(seed).integers(0, len(problem.hosts), len(problem.tasks))
    schedule = evaluate(problem, hosts)
    assert CRITERIA["used_hosts"](problem, hosts) == schedule.used_hosts
    assert CRITERIA["cost"](problem, hosts) == schedule.cost
    assert CRITERIA["idleness"](problem, hosts) == pytest.approx(1 - schedule.utilisation)
    assert (CRITERIA["overload"](problem, hosts) == 0) == schedule.feasible
    by_hand = sum(
        rate * (0 if hosts[i] == hosts[j] else problem.separation[problem.region[hosts[i]], problem.region[hosts[j]]])
        for i, j, rate in zip(problem.senders, problem.receivers, problem.rates, strict=True)
    )
    assert schedule.traffic == pytest.approx(by_hand)
    hard = sum(capacity(r).charge(problem, hosts) for r in problem.resources)
    assert (hard == 0) == schedule.feasible


def test_a_soft_constraint_is_broken_for_gain_and_a_hard_one_is_not() -> None:
    problem = Problem.from_arrays(np.array([6.0, 5.0])[:, None, None], np.full((2, 1), 10.0))
    soft = WeightedCriteria({"used_hosts": 1.0}, (capacity("cpu", penalty=2.0),))
    hard = WeightedCriteria({"used_hosts": 1.0}, (capacity("cpu"),))
    assert evaluate(problem, Tidegate(soft)(problem, np.random.default_rng(1))).used_hosts == 1
    assert evaluate(problem, Tidegate(hard)(problem, np.random.default_rng(1))).feasible


def test_weights_decide_between_cost_and_number_of_hosts() -> None:
    hosts = (
        Host("big", {"cpu": 10}, cost=9.0),
        Host("s1", {"cpu": 5}, cost=1.0),
        Host("s2", {"cpu": 5}, cost=1.0),
    )
    problem = Problem(hosts, (Task("x", {"cpu": 5}), Task("y", {"cpu": 5})))

    def used(**weights: float) -> set[str]:
        chosen = Tidegate(WeightedCriteria(weights, (capacity("cpu"),)))(problem, np.random.default_rng(2))
        return set(evaluate(problem, chosen).assignment.values())

    assert used(used_hosts=10.0, cost=0.1) == {"big"}
    assert used(used_hosts=0.1, cost=10.0) == {"s1", "s2"}


def test_a_budget_is_a_constraint() -> None:
    problem = waves(6, 6, 1)
    within = at_most("cost", 3.0)
    assert within.charge(problem, np.zeros(6, dtype=np.int64)) == 0
    assert within.charge(problem, np.arange(6)) == pytest.approx(3e9)


def test_impossible_objectives_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown criteria"):
        WeightedCriteria({"beauty": 1.0})
    with pytest.raises(ValueError, match="not negative"):
        WeightedCriteria({"cost": -1.0})
    with pytest.raises(ValueError, match="penalty"):
        Constraint("c", lambda p, h: 0.0, penalty=0.0)
    with pytest.raises(ValueError, match="unknown criteria"):
        pareto_front(waves(3, 3, 1), ["beauty"], RNG)


def test_the_front_trades_hosts_for_migrations_and_holds_no_dominated_schedule() -> None:
    problem = waves(12, 12, 4)
    problem = replace(problem, current={task.name: f"h{i}" for i, task in enumerate(problem.tasks)})
    front = pareto_front(problem, ["used_hosts", "migrations"], np.random.default_rng(1), [capacity("cpu")])
    values = [tradeoff.values for tradeoff in front]
    assert len(values) >= 3
    assert (12, 0) in values
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(values))
    assert all(t.schedule.feasible and t.values == (t.schedule.used_hosts, t.schedule.migrations) for t in front)


def test_the_front_keeps_the_cap_on_migrations() -> None:
    problem = waves(12, 12, 4)
    current = {task.name: f"h{i}" for i, task in enumerate(problem.tasks)}
    capped = replace(problem, current=current, max_migrations=3)
    front = pareto_front(capped, ["used_hosts", "migrations"], np.random.default_rng(1), iterations=20)
    assert max(t.schedule.migrations for t in front) <= 3


@settings(max_examples=50, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_survival_prefers_what_nothing_dominates(points: list[tuple[int, int]]) -> None:
    scores = np.array(points, dtype=float)
    fronts = front_numbers(scores)
    for i, one in enumerate(points):
        dominated = any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in points)
        assert (fronts[i] == 0) == (not dominated)
    half = len(points) // 2
    stay, join = nsga2(scores[:half], scores[half:], half)
    kept = fronts[np.concatenate([stay, join + half])]
    assert len(kept) == half
    assert kept.max(initial=0) <= np.sort(fronts)[half]
    assert sorted(nondominated_rank(scores)) == list(range(len(points)))


def test_operators_do_what_their_names_say() -> None:
    rng = np.random.default_rng(3)
    rows = np.array([[0] * 30, [1] * 30] * 20)
    crossed = uniform_crossover(1.0)(rows, rng)
    assert (crossed[::2] + crossed[1::2] == 1).all()
    assert 0.3 < crossed[::2].mean() < 0.7
    assert (uniform_crossover(0.0)(rows, rng) == rows).all()
    mutated = move_or_swap(1.0, 9)(np.tile(np.arange(30), (200, 1)), rng)
    changed = (mutated != np.arange(30)).sum(axis=1)
    assert changed.max() == 2
    assert {0, 1, 2} >= set(changed.tolist())
    swaps = mutated[changed == 2]
    assert (np.sort(swaps, axis=1) == np.arange(30)).all()
    parents, children = np.array([[3.0], [1.0], [2.0]]), np.array([[9.0], [0.5], [9.0]])
    assert [rows.tolist() for rows in generational(1)(parents, children, 3)] == [[1], [0, 1]]
    assert [rows.tolist() for rows in fittest(parents, children, 3)] == [[1, 2], [1]]


@settings(max_examples=40, derandomize=True)
@given(problem=problems(), seed=st.integers(0, 9))
def test_colocation_never_adds_traffic_hosts_or_overload(problem: Problem, seed: int) -> None:
    hosts = np.random.default_rng(seed).integers(0, len(problem.hosts), len(problem.tasks))
    before, after = evaluate(problem, hosts), evaluate(problem, colocate(problem, hosts))
    assert after.traffic <= before.traffic + 1e-9
    assert after.used_hosts <= before.used_hosts
    assert excess(flatten(problem), colocate(problem, hosts)) <= excess(flatten(problem), hosts) + 1e-6


def test_colocation_swaps_talkers_together() -> None:
    tasks = (
        Task("a", {"cpu": 5}, {"b": 1}),
        Task("b", {"cpu": 5}),
        Task("c", {"cpu": 5}, {"d": 1}),
        Task("d", {"cpu": 5}),
    )
    problem = Problem(tuple(Host(f"h{h}", {"cpu": 10}) for h in range(2)), tasks)
    assert evaluate(problem, colocate(problem, np.array([0, 1, 0, 1]))).traffic == 0


def test_colocation_spends_no_more_moves_than_are_left() -> None:
    tasks = (Task("a", {"cpu": 5}, {"b": 1}), Task("b", {"cpu": 5}))
    apart = {"a": "h0", "b": "h1"}
    problem = Problem(tuple(Host(f"h{h}", {"cpu": 10}) for h in range(2)), tasks, current=apart, max_migrations=0)
    assert colocate(problem, np.array([0, 1])).tolist() == [0, 1]
    assert len(set(colocate(replace(problem, max_migrations=1), np.array([0, 1])))) == 1
