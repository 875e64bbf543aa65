"""What keeps a step of the centre short when there are thousands of applications."""

from __future__ import annotations

import contextlib
import gc
import random
from pathlib import Path

import pytest

from tidegate.domain import FleetApplication, FleetHost
from tidegate.fleet import judging
from tidegate.fleet.centre import _collector_paused
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.judging import Judge
from tidegate.fleet.lease import LeaseTerms
from tidegate.fleet.plan.placing import place
from tidegate.fleet.provider import LocalProcesses
from tidegate.fleet.registry import Registry
from tidegate.fleet.vocabulary import ApplicationSpec


def test_the_registry_reads_again_what_it_has_written_itself(tmp_path: Path) -> None:
    registry, other = Registry(tmp_path / "registry.db"), Registry(tmp_path / "registry.db")
    for number in range(8):
        registry.put_application(ApplicationSpec(f"a{number}", "m:f"))
    before = registry.applications()
    registry.assign("a3", "east-1")
    registry.forget_application("a5")
    assert registry.applications() == Registry(tmp_path / "registry.db").applications()
    assert (before["a3"].host, "a5" in before) == (None, True), "what was handed out stays as it was"
    registry.assign("a1", "east-1")
    other.assign("a2", "east-2")
    registry.put_application(ApplicationSpec("a50", "m:f"))
    assert list(registry.applications()) == sorted(registry.applications())
    assert registry.applications() == other.applications()
    with contextlib.suppress(RuntimeError), registry.together():
        registry.assign("a4", "east-9")
        assert registry.applications()["a4"].host == "east-9"
        raise RuntimeError
    assert registry.applications()["a4"].host is None


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    return FleetFolder(tmp_path / "fleet")


def test_new_leases_are_read_a_few_per_step_and_idle_ones_in_turn(
    folder: FleetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_MOST_NEW", 4)
    monkeypatch.setattr(judging, "_MOST_IDLE", 2)
    registry = Registry(folder.registry)
    for number in range(6):
        registry.put_application(ApplicationSpec(f"a{number}", "m:f"))
        folder.lease(f"a{number}").create()
    judge = Judge(folder, FleetConfig(), LocalProcesses(folder, lambda host: []), registry)
    judge.states({}, set())
    assert not judge.settled({}), "two leases are unknown"
    judge.states({}, set())
    assert judge.settled({})
    for number in (4, 5):  # taken by a host that the centre does not know
        folder.lease(f"a{number}").take(LeaseTerms("east-1/x", 8.0), None)
    registry.assign("a5", "east-1")
    judge.states({}, set())
    assert judge.ran("a5"), "a lease that may be taken is read in every step"
    for _ in range(3):
        judge.states({}, set())
    assert judge.ran("a4"), "the others in turn"


def test_many_applications_fill_their_regions_and_spill_where_most_room_is() -> None:
    draw = random.Random(3)
    hosts = [FleetHost(f"h{number:02d}", f"r{number % 4}", 8) for number in range(20)]
    free = {host.name: draw.uniform(1.0, 6.0) for host in hosts}
    many = [FleetApplication(f"a{n:03d}", f"r{n % 5}", draw.uniform(0.1, 0.5), None) for n in range(300)]
    placed = place(hosts, many, free, "tidegate")
    assert placed.keys() == {one.name for one in many}
    regions = {host.name: host.region for host in hosts}
    room = dict(free)
    for one in many:
        room[placed[one.name]] -= one.need
    for one in many:
        if one.home != "r4" and regions[placed[one.name]] != one.home:
            at_home = max(left for host, left in room.items() if regions[host] == one.home)
            assert at_home < one.need, "it left its region although there was room"


def test_the_collector_waits_for_the_end_of_the_step() -> None:
    with _collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
