"""What each published scheduler does by its own rules, on cases small enough to follow by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tidegate.placement import Host, Problem, Task, evaluate, scheduler
from tidegate.placement.greedy import best_fit_decreasing, first_fit_decreasing
from tidegate.placement.rstorm import RStorm, breadth_first_order
from tidegate_lab.experiments.paper_ga import PaperGA, idle_and_overload
from tidegate_lab.experiments.tstorm import TStorm

from .problems import waves

RNG = np.random.default_rng(0)


def hosts(count: int, **capacity: float) -> tuple[Host, ...]:
    return tuple(Host(f"h{h}", capacity) for h in range(count))


def test_rstorm_takes_components_breadth_first_and_their_tasks_in_turn() -> None:
    tasks = (
        Task("sink", {"cpu": 1}, component="sink"),
        Task("mid0", {"cpu": 1}, {"sink": 1}, component="mid"),
        Task("mid1", {"cpu": 1}, {"sink": 1}, component="mid"),
        Task("src0", {"cpu": 1}, {"mid0": 1}, component="src"),
        Task("src1", {"cpu": 1}, {"mid1": 1}, component="src"),
    )
    order = breadth_first_order(Problem(hosts(1, cpu=9), tasks))
    assert [tasks[i].name for i in order] == ["src0", "mid0", "sink", "src1", "mid1"]


def test_rstorm_orders_a_cycle_too() -> None:
    tasks = (Task("a", {"cpu": 1}, {"b": 1}), Task("b", {"cpu": 1}, {"a": 1}))
    assert sorted(breadth_first_order(Problem(hosts(1, cpu=9), tasks))) == [0, 1]


def test_rstorm_prefers_the_host_whose_availability_is_nearest() -> None:
    # |(4−10)/11| = 0.55 against |(4−5)/6| = 0.17
    problem = Problem((Host("wide", {"cpu": 10}), Host("snug", {"cpu": 5})), (Task("x", {"cpu": 4}),))
    assert RStorm(cpu_only=True)(problem, RNG).tolist() == [1]


def test_rstorm_overcommits_cpu_before_memory() -> None:
    problem = Problem(
        (Host("cpu", {"cpu": 10, "memory": 1}), Host("memory", {"cpu": 1, "memory": 10})),
        (Task("x", {"cpu": 5, "memory": 5}),),
    )
    assert RStorm()(problem, RNG).tolist() == [1]


def test_rstorm_stays_near_the_last_host() -> None:
    near = tuple(
        Host(name, {"cpu": 10, "memory": 10}, region) for name, region in [("a", "eu"), ("b", "us"), ("c", "eu")]
    )
    tasks = tuple(Task(f"t{i}", {"cpu": 8, "memory": 8}) for i in range(2))
    assert RStorm()(Problem(near, tasks), RNG).tolist() == [0, 2]


def test_the_merged_signal_packs_tighter_than_declared_peaks() -> None:
    problem = waves(60, 60, 1)
    merged, declared = (scheduler(name).schedule(problem, RNG) for name in ("rstorm-cpu", "rstorm-peak"))
    assert merged.used_hosts < declared.used_hosts
    assert merged.feasible
    assert declared.feasible


def test_tstorm_puts_talkers_together_within_its_cap() -> None:
    tasks = (
        Task("a", {"cpu": 1}, {"b": 10}),
        Task("c", {"cpu": 1}, {"d": 5}),
        Task("b", {"cpu": 1}),
        Task("d", {"cpu": 1}),
    )
    problem = Problem(hosts(2, cpu=9), tasks)
    a, c, b, d = TStorm(gamma=1.0)(problem, RNG)
    assert a == b != c == d
    assert evaluate(problem, TStorm(gamma=1.0)(problem, RNG)).traffic == 0
    assert len(set(TStorm(gamma=2.0)(problem, RNG))) == 1
    with pytest.raises(ValueError, match="gamma"):
        TStorm(gamma=0.5)


def test_first_and_best_fit_differ_where_they_should() -> None:
    # With 6 and 5 placed, 4 and 5 are left: the 4 goes to the first host that holds it, or to the one it fills.
    sizes = np.array([6.0, 5.0, 4.0])[:, None, None]
    problem = Problem.from_arrays(sizes, np.array([[10.0], [10.0]]))
    assert first_fit_decreasing(problem, RNG).tolist() == [0, 1, 0]
    assert best_fit_decreasing(problem, RNG).tolist() == [0, 1, 0]
    shuffled = Problem.from_arrays(np.array([7.0, 6.0, 4.0, 3.0])[:, None, None], np.full((3, 1), 11.0))
    assert first_fit_decreasing(shuffled, RNG).tolist() == [0, 1, 0, 1]
    crossed = Problem.from_arrays(np.array([6.0, 6.0, 4.0, 1.0])[:, None, None], np.array([[12.0], [11.0], [6.0]]))
    assert first_fit_decreasing(crossed, RNG).tolist() == [0, 0, 1, 1]


def test_fitness_counts_idle_room_of_used_hosts_and_penalises_overload() -> None:
    demand, room = np.array([[0.5, 1.0], [0.25, 0.5]]), np.ones((3, 2))
    together, apart = np.array([[0, 0], [0, 2]], dtype=np.int64)
    fitness = idle_and_overload(demand, room, np.array([together, apart]), 100.0)[:, 0]
    assert fitness == pytest.approx([0.25 + 100 * 0.5, 0.5 + 0.75 + 0.5])


def test_the_papers_genetic_algorithm_improves_and_never_loses_its_elite() -> None:
    evolution = PaperGA(iterations=200).evolve(waves(40, 20, 3), np.random.default_rng(5))
    assert evolution.history[-1] < 0.8 * evolution.history[0]
    assert (np.diff(evolution.history) <= 0).all()
    assert evolution.history[-1] == evolution.scores.min()


def test_round_robin_spreads_over_all_hosts() -> None:
    problem = replace(waves(10, 5, 1))
    assert scheduler("round-robin").schedule(problem, RNG).used_hosts == 5
