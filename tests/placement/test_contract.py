"""What every scheduler promises, whatever it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.placement import SCHEDULERS, Problem, Schedule, lower_bound, scheduler
from tidegate.placement.hostload import TOLERANCE, loads
from tidegate.placement.scheduler import RuleScheduler, Scheduler
from tidegate_lab.experiments.paper_ga import PaperGA

from .problems import problems, waves

# The published 1000 iterations say nothing more about the contract than 30 do.
BASELINES = {name: scheduler(name) for name in ("rstorm", "rstorm-cpu", "rstorm-peak", "tstorm")}
ALL: dict[str, Scheduler] = {**SCHEDULERS, **BASELINES, "paper-ga": RuleScheduler(PaperGA(iterations=30))}
CAPACITY_AWARE = sorted(set(ALL) - {"round-robin", "paper-ga"})
each_scheduler = pytest.mark.parametrize("name", sorted(ALL))


def solve(name: str, problem: Problem, seed: int = 1) -> Schedule:
    return ALL[name].schedule(problem, np.random.default_rng(seed))


def host_indices(problem: Problem, schedule: Schedule) -> np.ndarray:
    at = {host.name: h for h, host in enumerate(problem.hosts)}
    return np.array([at[schedule.assignment[task.name]] for task in problem.tasks], dtype=np.int64)


@each_scheduler
@settings(max_examples=15, derandomize=True)
@given(problem=problems())
def test_every_task_runs_on_a_host_and_the_measures_are_those_of_the_assignment(name: str, problem: Problem) -> None:
    schedule = solve(name, problem)
    assert set(schedule.assignment) == {task.name for task in problem.tasks}
    hosts = host_indices(problem, schedule)
    assert schedule.used_hosts == len(set(schedule.assignment.values()))
    within = (loads(problem, hosts) <= problem.capacity[:, :, None] * (1 + TOLERANCE) + TOLERANCE).all()
    assert schedule.feasible == within == (schedule.overload == 0)
    assert schedule.cost == sum(problem.hosts[h].cost for h in set(hosts))
    assert 0 <= schedule.utilisation <= 1 + TOLERANCE


@each_scheduler
@settings(max_examples=15, derandomize=True)
@given(problem=problems())
def test_no_schedule_without_overload_beats_the_lower_bound(name: str, problem: Problem) -> None:
    schedule = solve(name, problem)
    assert schedule.lower_bound == lower_bound(problem)
    assert not schedule.feasible or schedule.used_hosts >= schedule.lower_bound


@each_scheduler
def test_the_same_seed_gives_the_same_schedule(name: str) -> None:
    problem = waves(30, 20, 4, ("cpu", "memory"))
    assert solve(name, problem, 7) == solve(name, problem, 7)


@pytest.mark.parametrize("name", CAPACITY_AWARE)
@pytest.mark.parametrize("seed", range(3))
def test_capacity_holds_where_there_is_plenty_of_room(name: str, seed: int) -> None:
    schedule = solve(name, waves(24, 24, seed))
    assert schedule.feasible
    assert schedule.used_hosts < 24


@each_scheduler
@pytest.mark.parametrize("cap", [0, 1, 3, 10])
def test_no_more_running_tasks_move_than_allowed(name: str, cap: int) -> None:
    problem = waves(16, 12, 2)
    current = {task.name: f"h{i % 12}" for i, task in enumerate(problem.tasks[:14])}
    replanned = solve(name, replace(problem, current=current, max_migrations=cap))
    moved = [task for task, host in current.items() if replanned.assignment[task] != host]
    assert len(moved) == replanned.migrations <= cap
    assert len(replanned.assignment) == 16


@each_scheduler
@settings(max_examples=10, derandomize=True)
@given(problem=problems(), data=st.data())
def test_the_cap_holds_on_any_problem(name: str, problem: Problem, data: st.DataObject) -> None:
    hosts = st.sampled_from([host.name for host in problem.hosts])
    current = {task.name: data.draw(hosts) for task in problem.tasks}
    cap = data.draw(st.integers(0, len(problem.tasks)))
    assert solve(name, replace(problem, current=current, max_migrations=cap)).migrations <= cap


@each_scheduler
def test_too_little_capacity_is_reported_not_raised(name: str) -> None:
    schedule = solve(name, Problem.from_arrays(np.full((6, 1, 1), 300.0), np.full((2, 1), 500.0)))
    assert not schedule.feasible
    assert schedule.overload > 0
    assert schedule.lower_bound > 2


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown scheduler 'magic'.*tidegate"):
        scheduler("magic")
