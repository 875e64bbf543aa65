"""Islands give the same result wherever they run; configuration chooses instances and hosts with the assignment."""

import pickle

import numpy as np
import pytest

from tidegate.placement import (
    Host,
    InvalidInstance,
    IslandResult,
    OperatorChoice,
    configure,
    merge,
    solve_island,
    solve_islands,
)
from tidegate.placement.hostload import flatten, loads

from .problems import waves

BUDGET = 20_000


def test_the_result_does_not_depend_on_where_or_in_which_order_islands_run() -> None:
    problem = waves(40, 30, 6)

    def elsewhere(function, items):  # type: ignore[no-untyped-def]
        shipped = pickle.loads(pickle.dumps(function))
        return [pickle.loads(pickle.dumps(shipped(item))) for item in reversed(items)]

    assert solve_islands(problem, [1, 2, 3], BUDGET) == solve_islands(problem, [1, 2, 3], BUDGET, elsewhere)


def test_more_islands_are_never_worse_and_the_best_one_wins() -> None:
    problem = waves(40, 30, 6)
    found = [solve_island(problem, seed, BUDGET) for seed in range(4)]
    assert merge(found) == merge(found[::-1])
    assert merge(found).quality == min(candidate.quality for candidate in found)
    assert solve_islands(problem, range(4), BUDGET).used_hosts == merge(found).quality[1]
    with pytest.raises(ValueError, match="at least one island"):
        merge([])


def test_an_operator_is_split_only_as_far_as_it_pays() -> None:
    hosts = [Host(f"h{h}", {"cpu": 100}) for h in range(6)]
    heavy = OperatorChoice("heavy", {"cpu": 150}, (1, 2, 3, 4), {"cpu": 10})
    light = OperatorChoice("light", {"cpu": 20}, (1, 2, 3, 4), {"cpu": 10}, {"heavy": 6})
    chosen = configure([heavy, light], hosts, np.random.default_rng(0))
    assert chosen.instances == {"heavy": 2, "light": 1}
    assert chosen.schedule.feasible
    assert len(chosen.hosts) == chosen.schedule.used_hosts == 3
    assert set(chosen.schedule.assignment) == {"heavy/0", "heavy/1", "light/0"}


def test_the_cheaper_hosts_of_the_catalogue_open() -> None:
    catalogue = [Host("big", {"cpu": 400}, cost=10)] + [Host(f"s{k}", {"cpu": 100}, cost=2) for k in range(4)]
    chosen = configure([OperatorChoice("op", {"cpu": 300}, (1, 2, 3))], catalogue, np.random.default_rng(0))
    assert chosen.instances == {"op": 3}
    assert chosen.schedule.cost == 6


def test_demand_and_traffic_are_conserved_by_splitting() -> None:
    catalogue = [Host(f"h{k}", {"cpu": 10}) for k in range(8)]
    a = OperatorChoice("a", {"cpu": [20, 10]}, (4,), traffic={"b": 12})
    b = OperatorChoice("b", {"cpu": 6}, (3,))
    tasks = a.tasks(4, {"a": 4, "b": 3})
    assert sum(rate for task in tasks for rate in task.traffic.values()) == pytest.approx(12)
    assert sum(task.demand["cpu"] for task in tasks).tolist() == [20, 10]  # type: ignore[union-attr]
    chosen = configure([a, b], catalogue, np.random.default_rng(0))
    assert chosen.schedule.feasible


def test_impossible_choices_are_refused() -> None:
    with pytest.raises(InvalidInstance, match="instances"):
        OperatorChoice("a", {"cpu": 1}, (0, 1))
    with pytest.raises(InvalidInstance, match="unknown operator 'z'"):
        configure(
            [OperatorChoice("a", {"cpu": 1}, traffic={"z": 1})],
            [Host("h", {"cpu": 1})],
            np.random.default_rng(0),
        )


def test_loads_and_flat_form_agree() -> None:
    problem = waves(9, 3, 1, ("cpu", "memory"))
    hosts = np.arange(9) % 3
    assert loads(problem, hosts).sum() == pytest.approx(flatten(problem).demand.sum() * 500)


def test_merging_prefers_quality_to_seed_and_the_smaller_seed_among_equals() -> None:
    worse, better, same = (
        IslandResult((0.0, 3.0), 1, (0,)),
        IslandResult((0.0, 2.0), 5, (1,)),
        IslandResult((0.0, 2.0), 7, (2,)),
    )
    assert merge([worse, same, better]) == better
