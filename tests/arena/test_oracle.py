"""The oracle cannot be beaten in its model, and its plans hold on the plant."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tidegate_lab.arena.loads import ArenaLoad, made
from tidegate_lab.arena.oracle import Cells, Fluid, cheapest, play_oracle
from tidegate_lab.arena.play import play_rival, play_sizes
from tidegate_lab.arena.replay import Replay
from tidegate_lab.arena.rivals.catalogue import RIVALS
from tidegate_lab.arena.setting import Setting


def small(seed: int, allowed: float) -> Fluid:
    """Six steps of a restless load for up to three executors."""
    random = np.random.default_rng(seed)
    parts, step_s = 2, 20.0
    arrived = np.cumsum(np.repeat(random.uniform(0.0, 70.0, 6), parts) * step_s / parts)
    overdue = np.concatenate([np.zeros(1), arrived[:-1]])
    return Fluid(arrived, overdue, step_s, 25.0, (1, 2, 3), 1, allowed * float(arrived[-1]), 0.5, 1, parts)


@pytest.mark.parametrize("allowed", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(8))
def test_no_sequence_of_sizes_is_cheaper(seed: int, allowed: float) -> None:
    fluid = small(seed, allowed)
    every = [list(plan) for plan in product(fluid.sizes, repeat=fluid.steps) if plan[0] <= fluid.start]
    holding = [cost for cost, late in map(fluid.grade, every) if late <= fluid.allowed_late + 1e-6]
    plan = cheapest(fluid)
    if not holding:
        assert plan is None
        return
    assert plan is not None
    cost, late = fluid.grade(plan)
    assert late <= fluid.allowed_late + 1e-6
    assert cost == pytest.approx(min(holding))


@pytest.mark.parametrize("seed", range(8))
def test_cells_lose_little(seed: int) -> None:
    fluid = small(seed, 0.1)
    exact, coarse = cheapest(fluid), cheapest(fluid, Cells())
    assert (exact is None) == (coarse is None)
    if exact is not None and coarse is not None:
        assert fluid.grade(coarse)[1] <= fluid.allowed_late + 1e-6
        assert fluid.grade(coarse)[0] <= 1.05 * fluid.grade(exact)[0]


def short() -> ArenaLoad:
    whole = made("cosine", seed=1)
    return ArenaLoad("short", whole.values[20:50], 60.0, 1)


@pytest.mark.slow
def test_replay_is_the_simulator() -> None:
    setting, load = Setting(), short()
    random = np.random.default_rng(5)
    times_s = np.sort(random.uniform(0.0, load.duration_s, 40)).round(1).tolist()
    asked = list(zip(times_s, random.integers(2, 10, 40).tolist(), strict=True))
    run = play_sizes(setting, load, asked, 4, "planned")
    late, spent_s = Replay.of(setting, load).run(asked, 4)
    assert late == pytest.approx(run.late, abs=1e-12)
    assert spent_s == pytest.approx(run.executor_seconds)


@pytest.mark.slow
def test_nobody_holds_the_objective_for_less_than_the_oracle() -> None:
    setting, load = Setting(), short()
    oracle = play_oracle(setting, load, most_replays=800)
    assert oracle is not None
    assert oracle.late <= setting.allowed_late
    for entry in RIVALS.values():
        for settings in entry.settings:
            run = play_rival(setting, load, entry.make(**settings))
            assert run.late > setting.allowed_late or run.executor_seconds > oracle.executor_seconds
