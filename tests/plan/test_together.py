"""The parts of the autopilot need one another: what the runs ask, the smallest fixed pool, the whole simulated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tidegate.domain import InvalidInput
from tidegate.load import Burst, Constant, Sum
from tidegate_lab.experiments.together import (
    RUNS,
    SINGLE,
    Played,
    Scenario,
    Setting,
    run,
    scenario,
    setting_of,
    smallest_fixed,
)
from tidegate_lab.experiments.together_sim import SimWorld


@dataclass
class Needs:
    """A world in which a pool holds from some size on."""

    least: int
    played: list[int] = field(default_factory=list)

    def play(self, scenario: Scenario, setting: Setting) -> Played:
        self.played.append(setting.executors)
        late = 0.0 if setting.executors >= self.least and setting.by_hand else 0.5
        return Played({"gold": late}, {"gold": 1.0}, 300.0 * setting.executors, 0, 0.0, 0, 0)


@pytest.mark.parametrize(("least", "found"), [(1, 1), (2, 2), (3, 3), (6, 6), (9, 6)])
def test_the_smallest_fixed_pool_is_found_without_playing_a_size_twice(least: int, found: int) -> None:
    world = Needs(least)
    assert smallest_fixed(world, scenario()).executor_seconds == 300.0 * found
    assert len(set(world.played)) == len(world.played) <= 3


def test_every_run_asks_the_proposers_that_its_name_says() -> None:
    asked = {name: setting_of(name, scenario()).proposers for name in RUNS if name != "fixed-peak"}
    assert asked["fixed-min"] == ()
    assert asked["autopilot"] is None
    assert all(asked[name] == (name,) for name in SINGLE)
    assert set(asked["without-pool"] or ()) == {"operators", "classes", "admission", "interval", "state"}
    with pytest.raises(InvalidInput, match="unknown run"):
        setting_of("without-luck", scenario())


def test_the_policy_states_objectives_classes_and_bounds_alone() -> None:
    assert scenario().policy().model_fields_set == {"executors", "classes", "applications"}


@pytest.mark.slow
def test_only_the_whole_holds() -> None:
    found = run(SimWorld(), scenario(), lambda *_: None)
    worst = {name: max(one["violation_rate"].values()) for name, one in found["runs"].items()}
    assert {name for name, late in worst.items() if late <= 0.01} == {"fixed-peak", "autopilot"}
    costs = {name: one["executor_seconds"] for name, one in found["runs"].items()}
    assert costs["autopilot"] <= 0.8 * costs["fixed-peak"]
    assert all(one["rows_lost"] == one["rows_doubled"] == 0 for one in found["runs"].values())


def with_bursts(rows_per_s: float, lasts_s: float) -> Scenario:
    """The same jobs, but the lower class has other bursts."""
    usual = scenario()
    orders, reports = usual.jobs
    bursts = (Burst(0.0, rows_per_s, at_s, lasts_s) for at_s in (50.0, 135.0, 210.0))
    return replace(usual, jobs=(orders, replace(reports, load=Sum((Constant(40.0), *bursts)))))


@pytest.mark.slow
def test_an_operator_is_rescaled_although_the_pool_keeps_changing() -> None:
    """Every change of the pool used to void what was known about operators: 78 % of the orders were over 10 s."""
    played = SimWorld().play(with_bursts(500.0, 20.0), Setting(1, proposers=None))
    assert played.violation_rate["gold"] < 0.05
