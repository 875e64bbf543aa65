"""What the chaos run does to a fleet, done to stub hosts: the right processes are struck, the application goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.conftest import StubFleet, wait_for
from tidegate_lab.experiments import chaos_fleet
from tidegate_lab.experiments.chaos_fleet import APPLICATION, ChaosFleet

pytestmark = pytest.mark.slow


@pytest.fixture
def chaos(fleet: StubFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChaosFleet:
    """On the stub fleet's folder, with its application under way."""
    monkeypatch.setattr(chaos_fleet, "_AWAKE_S", 0.5)
    fleet.begin()
    fleet.submit(APPLICATION, "east")
    wait_for(lambda: fleet.runs_on(APPLICATION) == "east-1", "the application")
    made = ChaosFleet(tmp_path, "nowhere:1", "rows")
    made._registry = fleet.registry
    return made


def went_on(fleet: StubFleet) -> None:
    wait_for(lambda: fleet.runs_on(APPLICATION) not in {None, "east-1"}, "the application on another host")
    fleet.check_rows(APPLICATION)


@pytest.mark.parametrize("kind", ["agent-killed", "host-killed"])
def test_a_host_that_was_killed_is_replaced(fleet: StubFleet, chaos: ChaosFleet, kind: str) -> None:
    struck = chaos._host()
    chaos.strikes()[kind]()
    went_on(fleet)
    wait_for(lambda: not any(process.is_running() for process in struck), "an end of all its processes")


def test_a_host_that_was_frozen_wakes_up_after_another_has_its_lease(fleet: StubFleet, chaos: ChaosFleet) -> None:
    agent, began = chaos._host()[0], chaos.began_s()
    chaos.freeze_host()
    assert len(chaos.began_s()) == len(began) + 1
    went_on(fleet)
    if agent.is_running():  # it may have given the application up by itself, and be of use again
        wait_for(lambda: fleet.events("host-adopted"), "the host to be taken back")
        fleet.check_rows(APPLICATION)
