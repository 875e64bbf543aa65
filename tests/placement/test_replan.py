"""Replanning from what runs: moves are few, spent where they help, and hosts are kept or swapped for cheaper ones."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.placement import Host, Problem, Task, Tidegate, evaluate, scheduler
from tidegate.placement.hostload import excess, flatten
from tidegate.placement.replan import improve_current, settle

from .problems import problems, waves

RNG = np.random.default_rng(0)


def running(sizes: list[float], hosts: list[int], count: int, cap: int | None, capacity: float = 10.0) -> Problem:
    problem = Problem.from_arrays(np.array(sizes)[:, None, None], np.full((count, 1), capacity))
    return replace(problem, current={f"t{i}": f"h{h}" for i, h in enumerate(hosts)}, max_migrations=cap)


def test_one_move_empties_the_host_with_one_task() -> None:
    problem = running([4, 4, 3, 3], [0, 0, 1, 2], 3, 1)
    schedule = scheduler("tidegate").schedule(problem, RNG)
    assert (schedule.used_hosts, schedule.migrations) == (2, 1)


def test_overload_is_relieved_before_hosts_are_closed() -> None:
    problem = running([6, 6, 1, 2], [0, 0, 1, 2], 3, 1)
    schedule = scheduler("tidegate").schedule(problem, RNG)
    assert schedule.feasible
    assert schedule.migrations == 1


def test_a_good_plan_is_left_alone() -> None:
    problem = running([5, 5, 5, 5], [0, 0, 3, 3], 5, None)
    schedule = scheduler("tidegate").schedule(problem, RNG)
    assert schedule.migrations == 0
    assert schedule.used_hosts == 2


def test_new_tasks_are_placed_without_counting_as_migrations() -> None:
    problem = running([5, 5, 5], [0, 1], 3, 0)
    schedule = scheduler("tidegate").schedule(problem, RNG)
    assert schedule.migrations == 0
    assert schedule.used_hosts == 2


def test_more_allowed_moves_never_cost_hosts() -> None:
    problem = waves(40, 40, 9)
    spread = replace(problem, current={task.name: f"h{i}" for i, task in enumerate(problem.tasks)})
    used = [
        Tidegate(budget=50_000)(replace(spread, max_migrations=cap), np.random.default_rng(1)) for cap in (0, 5, 15, 40)
    ]
    counts = [len(np.unique(hosts)) for hosts in used]
    assert counts[0] == 40
    assert counts[1] == 35
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 20


@settings(max_examples=40, derandomize=True)
@given(problem=problems(), data=st.data())
def test_improving_what_runs_never_adds_overload_and_settling_never_changes_the_groups(
    problem: Problem, data: st.DataObject
) -> None:
    names = [host.name for host in problem.hosts]
    problem = replace(problem, current={task.name: data.draw(st.sampled_from(names)) for task in problem.tasks})
    flat = flatten(problem)
    before, after = problem.placed, improve_current(problem, data.draw(st.integers(0, 7)))
    assert excess(flat, after) <= excess(flat, before) + 1e-9
    settled = settle(problem, after)
    assert (settled[:, None] == settled[None]).tolist() == (after[:, None] == after[None]).tolist()
    assert evaluate(problem, settled).cost <= evaluate(problem, after).cost
    assert excess(flat, settled) <= excess(flat, after) + 1e-9


def test_groups_settle_on_the_cheapest_hosts_that_hold_them() -> None:
    hosts = (
        Host("dear", {"cpu": 10}, cost=9),
        Host("cheap", {"cpu": 10}, cost=1),
        Host("tiny", {"cpu": 2}, cost=0.5),
    )
    problem = Problem(hosts, (Task("x", {"cpu": 6}), Task("y", {"cpu": 4})))
    assert settle(problem, np.array([0, 0])).tolist() == [1, 1]
