"""The fleet and its managers together: conservation, pauses, steering, the centre away, and the same run twice."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.adapters.sim.fleet_loop import FleetLoop, leave_alone
from tidegate.domain.errors import InvalidInput
from tidegate.managers import Budget

from .worlds import MOST, REGIONS, SPEC, rows, seated, steered


def test_every_row_leaves_and_the_work_is_what_rows_cost() -> None:
    arrivals = rows(1800, 60.0)
    plant = seated(arrivals)
    leave_alone(plant, 1800)
    totals = plant.totals()
    assert totals.latencies.rows == pytest.approx(arrivals.sum(), rel=1e-6)
    busy = totals.utilisation * totals.host_hours * 3600 * SPEC.host.cores
    assert busy == pytest.approx(arrivals.sum() * 0.03, rel=1e-6)
    assert totals.violation_rate == 0


def test_a_pause_delays_the_rows_that_come_in_it() -> None:
    plant = seated(np.full((2, 600), 40.0))
    plant.advance(300)
    plant.seat("app-north.count", {"north-0": 2, "north-1": 1})
    window = plant.advance(30)
    assert window.latency_s[0] == pytest.approx(6 + 0.03, abs=1.01)
    assert window.latency_s[1] == pytest.approx(0.03)
    plant.seat("app-north.count", {"north-1": 1, "north-0": 2})  # the same again
    assert (plant.totals().reconfigurations, plant.downtime_s) == (1, 6)


def test_an_overload_is_late_even_for_rows_that_never_leave() -> None:
    plant = seated(np.full((2, 600), 400.0))
    leave_alone(plant, 600)
    assert plant.totals().violation_rate > 0.9


def test_a_crowded_host_is_shared_by_demand() -> None:
    plant = seated(np.full((2, 300), 100.0), replicas=dict.fromkeys(MOST, 2), hosts=1)
    window = plant.advance(300)  # 3 cores' worth of work on a host of 2
    assert window.busy_cores == pytest.approx(2 * SPEC.host.cores, rel=0.02)
    assert max(window.utilisation) == pytest.approx(1.0, abs=0.02)


def test_commands_that_cannot_be_are_refused() -> None:
    plant = seated(rows(600, 20.0))
    with pytest.raises(InvalidInput, match="still runs replicas"):
        plant.stop_host("north-0")
    plant.advance(60)
    started = plant.have_hosts("north", 4)
    with pytest.raises(InvalidInput, match="is not up"):
        plant.seat("app-north.parse", {started[0]: 1})


def _wave(seconds: int) -> np.ndarray:
    return 110 + 90 * np.sin(2 * np.pi * np.arange(seconds) / 14_400)


def test_both_levels_follow_the_load_within_budget_and_limits() -> None:
    plant = seated(rows(28_800, _wave(28_800)), replicas={n: 5 if "count" in n else 3 for n in MOST}, hosts=5)
    loop = steered(plant, budget=Budget(14))
    line, totals = loop.run(28_800), plant.totals()
    assert totals.most_hosts <= 14
    assert min(min(sizes) for sizes in line.replicas) >= 1
    assert totals.host_hours < 0.85 * 10 * 8
    assert totals.violation_rate < 0.05
    high, low = np.argmax(line.rows_per_s), np.argmin(line.rows_per_s)
    assert sum(line.replicas[high]) > sum(line.replicas[low])


def test_the_same_seed_gives_the_same_run() -> None:
    def course() -> tuple[list[list[int]], list[list[int]], float]:
        loop = steered(seated(rows(5400, _wave(5400), seed=7)))
        line = loop.run(5400)
        return line.replicas, line.hosts, loop.plant.totals().violation_rate

    assert course() == course()


@pytest.mark.parametrize("forgets", [False, True], ids=["keeps its memory", "forgets all"])
@pytest.mark.parametrize("gone_s", [60, 900])
def test_the_centre_dies_in_a_burst_and_comes_back_without_a_jump(gone_s: int, forgets: bool) -> None:
    rate = np.full(7200, 90.0)
    rate[3000:4800] = 170.0  # the burst; the centre dies right after it began
    away = (3030.0, 3030.0 + gone_s)
    start = {n: 3 if "count" in n else 2 for n in MOST}
    plant = seated(rows(7200, rate), replicas=start, hosts=4)
    loop = steered(plant, centre_away_s=(away,), centre_forgets=forgets)
    line = loop.run(7200)
    times, sizes, hosts = np.array(line.time_s), np.array(line.replicas), np.array(line.hosts)
    back = int(np.searchsorted(times, away[1]))
    # Nothing is torn down or thrown up when it returns: one step of one rescue at most, in either direction.
    for step in range(back, back + 6):
        assert np.abs(sizes[step + 1] - sizes[step]).max() <= 3
        assert np.abs(hosts[step + 1] - hosts[step]).max() <= 1
    assert hosts.sum(axis=1).max() <= 12
    # The local managers bear the burst within their limits: latency is back under the objective before it ends.
    calm = (times > 4200) & (times <= 4800)
    assert np.array(line.latency_s)[calm].max() <= 4.0 + 6.0  # a pause may still show
    assert np.median(np.array(line.latency_s)[calm]) <= 4.0
    # And the centre agrees with what is there.
    for manager in loop.applications:
        for name, record in manager.state.operators.items():
            assert (
                record.target in (None, plant.replicas_of(name))
                or abs((record.target or 0) - plant.replicas_of(name)) <= 1
            )
    assert loop.infrastructure.committed <= 12


def test_a_budget_that_is_too_small_is_kept_all_the_same() -> None:
    plant = seated(rows(3600, 180.0), hosts=2)
    loop: FleetLoop = steered(plant, budget=Budget(5))
    loop.run(3600)
    assert plant.totals().most_hosts <= 5
    assert all(len(plant.hosts_of(region)) >= 1 for region in REGIONS)
