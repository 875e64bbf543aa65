"""A simulated fleet under the product's own controllers: conservation, pauses, both levels, and the centre away."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.adapters.sim.fleet import FleetOperator, FleetPlant, FleetSpec, HostKind, SimFleetApplication
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate.domain.errors import InvalidInput
from tidegate.fleet.config import FleetConfig
from tidegate_lab.experiments.multilevel_fleet import Levels, SimulatedFleet, leave_alone

REGIONS = ("north", "south")
SPEC = FleetSpec(
    tuple(
        SimFleetApplication(
            f"app-{number}-{region}", region, 12.0, (FleetOperator("parse", 0.002), FleetOperator("count", 0.004))
        )
        for region in REGIONS
        for number in range(4)
    ),
    HostKind(slots=4, boot_s=60),
)
MOST = {app.name: {"parse": 3, "count": 4} for app in SPEC.applications}
WORK_S = 0.006


def rows(seconds: int, rate: float | Floats, seed: int = 1) -> Floats:
    rates = np.broadcast_to(np.asarray(rate, dtype=float), (len(SPEC.applications), seconds))
    return np.random.default_rng(seed).poisson(rates).astype(float)


def placed(arrivals: Floats, hosts: int = 4, tasks: tuple[int, int] = (1, 2)) -> FleetPlant:
    """The applications of a region in turn on its hosts."""
    plant = FleetPlant(SPEC, arrivals)
    for region in REGIONS:
        for number in range(1, hosts + 1):
            plant.add_host(f"{region}-{number}", region)
    for number, app in enumerate(SPEC.applications):
        host = f"{app.region}-{number % hosts + 1}"
        plant.change(app.name, host, dict(zip(("parse", "count"), tasks, strict=True)))
    return plant


def controlled(plant: FleetPlant, most_hosts: int = 5, away_s: tuple[float, float] = (-1.0, -1.0)) -> SimulatedFleet:
    config = FleetConfig.model_validate(
        {
            "regions": {region: {"min_hosts": 1, "max_hosts": most_hosts} for region in REGIONS},
            "most_hosts": 2 * most_hosts,
            "host": {"slots": 4},
            "timing": {"poll_s": 60, "spare_s": 300},
            "managers": {"period_s": 60, "silence_s": 120, "alone_pause_s": 60, "refill_s": 300},
            "policy": {
                "mode": "apply",
                "applications": {app.name: {"objective": {"latency_s": 12.0}} for app in SPEC.applications},
            },
        }
    )
    return SimulatedFleet(plant, config, Levels(MOST, centre_away_s=away_s))


def wave(seconds: int) -> Floats:
    return 300 + 220 * np.sin(2 * np.pi * np.arange(seconds) / 14_400)


def test_every_row_leaves_and_the_work_is_what_rows_cost() -> None:
    arrivals = rows(1800, 200.0)
    plant = placed(arrivals)
    leave_alone(plant, 1800, 60)
    totals = plant.totals()
    assert totals.latencies.rows == pytest.approx(arrivals.sum(), rel=1e-6)
    busy = totals.utilisation * totals.host_hours * 3600 * SPEC.host.slots
    assert busy == pytest.approx(arrivals.sum() * WORK_S, rel=1e-6)
    assert totals.violation_rate == 0


def test_a_restart_delays_the_rows_that_come_in_it() -> None:
    plant = placed(np.full((8, 600), 100.0))
    plant.advance(300)
    plant.window()
    plant.change("app-0-north", "north-1", {"parse": 2, "count": 3})
    plant.advance(30)
    latency_s = plant.window().latency_s.max(axis=1)
    assert latency_s[0] == pytest.approx(6 + WORK_S, abs=1.01)
    assert latency_s[1] == pytest.approx(WORK_S)
    plant.change("app-0-north", "north-1", {"parse": 2, "count": 3})  # the same again
    assert (plant.totals().reconfigurations, plant.rescaled, plant.downtime_s) == (1, 2, 6)


def test_a_crowded_host_is_shared_by_demand_and_its_tasks_cost_something() -> None:
    plant = placed(np.full((8, 300), 400.0), hosts=1, tasks=(2, 2))  # 9.6 cores of work on 4 per region
    plant.advance(300)
    totals = plant.totals()
    assert totals.utilisation == pytest.approx((4 - 16 * SPEC.task_cores) / 4, rel=0.02)
    assert totals.violation_rate > 0.5


def test_commands_that_cannot_be_are_refused() -> None:
    plant = placed(rows(600, 20.0))
    with pytest.raises(InvalidInput, match="still runs applications"):
        plant.remove_host("north-1")
    plant.advance(60)
    plant.add_host("north-9", "north")
    with pytest.raises(InvalidInput, match="is not ready"):
        plant.change("app-0-north", "north-9", {"parse": 1, "count": 2})


@pytest.mark.slow
def test_both_levels_follow_the_load_within_their_limits() -> None:
    plant = placed(rows(28_800, wave(28_800)), tasks=(2, 3))
    fleet = controlled(plant)
    line, totals = fleet.run(28_800), plant.totals()
    assert totals.most_hosts <= 10
    assert totals.host_hours < 0.85 * 8 * 8
    assert totals.violation_rate < 0.03
    assert totals.moves > 0
    high, low = np.argmax(line.rows_per_s), np.argmin(line.rows_per_s)
    assert sum(line.tasks[high]) > sum(line.tasks[low])
    assert all(
        1 <= tasks <= MOST[name][operator]
        for sizes in line.tasks
        for tasks, (name, operator) in zip(sizes, SPEC.operators, strict=True)
    )


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    def course() -> tuple[list[list[int]], list[list[int]], float]:
        fleet = controlled(placed(rows(5400, wave(5400), seed=7)))
        line = fleet.run(5400)
        return line.tasks, line.hosts, fleet.plant.totals().violation_rate

    assert course() == course()


def test_while_the_centre_is_away_operators_help_themselves_within_their_allowance() -> None:
    rate = np.full(5400, 150.0)
    rate[1800:3600] = 480.0  # the burst; the centre is away for most of it
    plant = placed(rows(5400, rate), tasks=(1, 1))
    fleet = controlled(plant, away_s=(1830.0, 3500.0))
    line = fleet.run(5400)
    times, tasks, hosts = np.array(line.time_s), np.array(line.tasks), np.array(line.hosts)
    before, alone = tasks[times <= 1830][-1], tasks[times <= 3500][-1]
    assert alone.sum() > before.sum()
    assert (alone - before).max() <= 2
    during = hosts[(times > 1830) & (times < 3500)]
    assert (during == during[0]).all(), "only the centre starts and stops hosts"
    after = tasks[times > 3600][:3]
    assert np.abs(np.diff(after, axis=0)).max() <= 3, "its return is not a jump"


def test_a_budget_that_is_too_small_is_kept_all_the_same() -> None:
    plant = placed(rows(3600, 500.0), hosts=2)
    controlled(plant, most_hosts=2).run(3600)
    assert plant.totals().most_hosts <= 4
