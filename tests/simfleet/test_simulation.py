"""The fleet under seeds: nothing runs twice, nothing is lost, all is placed in the end; planted bugs are found."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simfleet.hosts import ROOT
from tests.simfleet.kernel import Kernel, Process
from tests.simfleet.machines import Clock, Files, Mount, SharedDisk
from tests.simfleet.mutants import planted
from tests.simfleet.simulation import Simulation, simulate
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.lease import LeaseTerms
from tidegate.fleet.registry import MOST_EVENTS, Registry


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("tidegate")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def broken(seeds: range) -> list[str]:
    return [f"seed {seed}: {found.violation}" for seed in seeds if (found := simulate(seed)[0]).violation]


def test_a_few_seeds() -> None:
    assert broken(range(10)) == []


@pytest.mark.slow
def test_some_hundred_seeds() -> None:
    assert broken(range(10, 250)) == []


def test_a_seed_replays_exactly() -> None:
    outcome, trace = simulate(7, trace=True)
    again, same = simulate(7, trace=True)
    assert (outcome, trace) == (again, same)
    assert outcome.events > 500
    assert outcome.rows > 30


# Where each was first found; `python -m tests.simfleet --mutants` finds these again from 0.
FOUND = {
    "a taker waits for half of the lease": (53, "runs twice"),
    "a damaged lease stays damaged": (9, "s after the last fault"),
    "a failed start leaves its query running": (2, "runs twice"),
    "the watchdog is told nothing": (23, "runs twice"),
    "a host is written down after its start": (6, "are the most"),
    "the watchdog hears of a lease too late": (372, "runs twice"),
}


@pytest.mark.parametrize("bug", FOUND)
def test_planted_bugs_are_found(bug: str) -> None:
    seed, seen = FOUND[bug]
    assert simulate(seed)[0].violation is None
    with planted(bug):
        violation = simulate(seed)[0].violation
    assert violation is not None
    assert seen in violation


@pytest.mark.slow
def test_half_an_hour_of_faults_leaves_little_behind() -> None:
    """Files, events and memory of a fleet that loses hosts and moves applications all the time."""

    simulation = Simulation(5, faulty_s=1800.0)
    assert simulation.run().violation is None
    folders = simulation.world.disk.folders
    assert len(folders[f"{ROOT}/hosts"]) <= 30, "of hosts that are gone, twenty have left their logs"
    assert all(len(names) <= 201 for names in folders.values())
    assert len(simulation.registry.events(10**6)) <= MOST_EVENTS + 256


@pytest.mark.slow
def test_three_weeks_of_moves_leave_little_behind() -> None:
    """A move every ten minutes: leases, runs and events are as many after three weeks as after two days."""
    kernel = Kernel(1)
    disk, clock = SharedDisk(), Clock(kernel, 0.0)
    folder = FleetFolder(ROOT, Files(Mount(kernel, disk), Process("host")), clock)
    registry = Registry(None, clock)
    lease = folder.lease("a")
    lease.create()

    def play(days: float) -> tuple[int, int]:
        for _ in range(round(days * 144)):
            kernel.run(kernel.now_s + 600.0)
            taken = lease.take(LeaseTerms("host", 4.0), lease.read())
            assert taken is not None
            folder.begin_run("a", taken.record.epoch)
            taken.release()
            for event in ("host-away", "host-ready", "application-assigned"):
                registry.note(event, "a")
        events = int(registry._all("SELECT count(*) FROM events")[0][0])
        return sum(len(names) for names in disk.folders.values()), events

    two_days, three_weeks = play(2.0), play(19.0)
    assert three_weeks[0] <= two_days[0] + 2
    assert three_weeks[1] <= MOST_EVENTS + 256
