"""Centre and agents together: applications run somewhere, once, whatever is killed, hung or cut off."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import psutil
import pytest
from typer.testing import CliRunner

from tests.fleet.conftest import LEASE_S, StubFleet, wait_for
from tidegate.cli.app import app
from tidegate.fleet.calls import fleet_wire
from tidegate.fleet.config import FleetConfig, plain
from tidegate.fleet.look import Lookout
from tidegate.fleet.registry import Registry
from tidegate.fleet.status import fleet_report
from tidegate_lab.experiments.wire import Wire

pytestmark = pytest.mark.slow


def host_pids(fleet: StubFleet) -> dict[str, int]:
    return {card.spec.name: card.pid for card in fleet.folder.cards()}


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def epochs(fleet: StubFleet, name: str) -> list[str]:
    """The hosts that have run it, in turn."""
    return [record.owner.partition("/")[0] for record in fleet.folder.lease(name).history()]


def note_of(fleet: StubFleet, host: str, name: str) -> str | None:
    glance = Lookout(fleet.folder, fleet_wire(fleet.folder, fleet.config)).look()[host]
    assert glance.status is not None
    return next((each.note for each in glance.status.tenancies if each.spec.name == name), None)


def test_applications_are_placed_at_home_moved_and_ended_and_hosts_end_in_good_order(fleet: StubFleet) -> None:
    fleet.begin()
    fleet.submit("a", "east")
    fleet.submit("b", "west")
    wait_for(lambda: fleet.runs_on("a") == "east-1", "a in the east")
    wait_for(lambda: fleet.runs_on("b") == "west-1", "b in the west")
    fleet.registry.ask_host("a", "west-1")
    wait_for(lambda: fleet.runs_on("a") == "west-1", "a in the west")
    assert epochs(fleet, "a") == ["east-1", "west-1"]
    rows = [row for row, _ in fleet.rows("a")]
    assert rows == list(range(len(rows))), "a move is orderly: no row is lost, and not one is repeated"
    fleet.registry.end_application("b")
    wait_for(lambda: "b" not in fleet.registry.applications(), "the end of b")
    assert fleet.runs_on("b") is None
    fleet.registry.ask_host("a", "nowhere-9")
    wait_for(lambda: fleet.events("move-refused"), "a refusal")
    fleet.submit("c", "west", broken=True)
    wait_for(lambda: "did not start" in str(note_of(fleet, "west-1", "c")), "the reason why c does not start")
    fleet.submit("c", "west")
    wait_for(lambda: fleet.runs_on("c") == "west-1", "c with a better recipe")
    pids = host_pids(fleet).values()
    fleet.registry.put_fact("down", True)
    wait_for(lambda: not fleet.registry.hosts(), "an empty fleet")
    wait_for(lambda: all(gone(pid) for pid in pids), "the end of their processes")
    assert not fleet.folder.cards()
    record = fleet.folder.lease("a").read()
    assert record is not None
    assert record.released
    assert set(fleet.registry.applications()) == {"a", "c"}, "they run again when the fleet comes up"


def test_hosts_measure_what_the_fleets_tables_ask_for(fleet: StubFleet) -> None:
    table = [{"metric": "execute_latency_s", "operator": "count", "bound": 2}]
    fleet.config = FleetConfig.model_validate(
        {**plain(fleet.config), "policy": {"applications": {"a": {"qos_table": table}}}}
    )
    fleet.begin()
    fleet.submit("a", "east")
    fleet.submit("b", "west")

    def measured() -> list[dict[str, object]]:
        return [row for row in fleet_report(fleet.folder, fleet.registry)["measured"] if row["mean"] is not None]

    objective = "count.execute_latency_s at most 2 for 99 % of 60 s"
    expected = {"application": "a", "host": "east-1", "objective": objective, "mean": 1.0}
    assert wait_for(measured, "the host's measurement") == [expected]


def test_a_killed_host_and_a_hung_agent_are_replaced_and_nothing_runs_twice(fleet: StubFleet) -> None:
    fleet.begin()
    fleet.submit("a", "east")
    fleet.submit("b", "west")
    wait_for(lambda: fleet.runs_on("a") and fleet.runs_on("b"), "both")
    began_s = time.monotonic()
    fleet.signal("east-1", signal.SIGKILL)
    wait_for(lambda: fleet.runs_on("a") not in {None, "east-1"}, "a on another host")
    assert time.monotonic() - began_s > LEASE_S, "nobody takes over before the lease has run out"
    wait_for(lambda: fleet.events("application-recovered"), "the report")
    wait_for(lambda: "east-2" in host_pids(fleet), "another host for the region")
    assert epochs(fleet, "b") == ["west-1"], "b was left alone"
    hung = fleet.pid("west-1")
    fleet.signal("west-1", signal.SIGSTOP)
    wait_for(lambda: fleet.runs_on("b") not in {None, "west-1"}, "b on another host")
    wait_for(lambda: gone(hung), "the end of the process that hung")
    for name in ("a", "b"):
        fleet.check_rows(name)


def test_without_the_centre_everything_goes_on_and_a_new_centre_changes_nothing(fleet: StubFleet) -> None:
    fleet.begin()
    fleet.submit("a", "east")
    fleet.submit("b", "west")
    wait_for(lambda: fleet.runs_on("a") and fleet.runs_on("b"), "both")
    fleet.kill_centre()
    pids = host_pids(fleet)
    time.sleep(1.5 * LEASE_S)
    assert fleet.runs_on("a") == "east-1"
    fleet.begin()
    time.sleep(1.0)
    assert host_pids(fleet) == pids
    fleet.kill_centre()
    for path in fleet.folder.registry.parent.iterdir():
        path.unlink()
    fleet.registry = Registry(fleet.folder.registry)
    fleet.begin()  # and now with an empty book

    def placed() -> dict[str, str | None]:
        return {name: app.host for name, app in fleet.registry.applications().items()}

    wait_for(lambda: placed() == {"a": "east-1", "b": "west-1"}, "both to be adopted where they run")
    time.sleep(0.5)
    assert (epochs(fleet, "a"), epochs(fleet, "b")) == (["east-1"], ["west-1"]), "nothing was ever restarted"
    fleet.kill_centre()
    os.killpg(fleet.pid("east-1"), signal.SIGKILL)
    assert fleet.runs_on("a") is None
    fleet.begin()
    wait_for(lambda: fleet.runs_on("a"), "a on another host: its own died while the centre was away")
    fleet.check_rows("a")


def test_a_host_that_cannot_be_reached_goes_on_and_nobody_takes_over(fleet: StubFleet) -> None:
    fleet.begin()
    fleet.submit("a", "east")
    wait_for(lambda: fleet.runs_on("a"), "a")
    card = fleet.folder.read_card("east-1")
    assert card is not None
    wire = Wire(card.address)
    fleet.folder.write_card(replace(card, address=wire.address))
    wait_for(lambda: fleet.registry.fact("view")["hosts"]["east-1"] == "ready", "the way over the wire")
    wire.cut()
    wait_for(lambda: fleet.registry.fact("view")["hosts"]["east-1"] == "away", "the cut to be noticed")
    time.sleep(2 * LEASE_S)
    assert fleet.runs_on("a") == "east-1"
    fleet.registry.ask_host("a", "west-1")
    wait_for(lambda: fleet.events("move-refused"), "a refusal: it cannot be stopped where it runs")
    wire.mend()
    wait_for(lambda: fleet.registry.fact("view")["hosts"]["east-1"] == "ready", "the way back")
    assert epochs(fleet, "a") == ["east-1"]
    fleet.check_rows("a")
    # Renewals fail from now on: the folder is not where the host expects it.
    lease = fleet.folder.lease("a").folder
    lease.rename(lease.with_name("elsewhere"))
    wait_for(lambda: fleet.runs_on("a") is None, "a to be stopped by its host")
    lease.with_name("elsewhere").rename(lease)
    wait_for(lambda: fleet.runs_on("a"), "a to go on under a new epoch")
    assert epochs(fleet, "a") == ["east-1", "east-1"]
    fleet.check_rows("a")
    wire.cut()
    fleet.signal("east-1", signal.SIGKILL)
    wait_for(lambda: fleet.runs_on("a") not in {None, "east-1"}, "a on another host, now that it is really gone")
    fleet.check_rows("a")


def test_a_region_grows_with_its_load_and_gives_the_host_back(fleet: StubFleet) -> None:
    """The managers together: a region asks, the centre grants, an application moves; and all of it back again."""
    fleet.managed = True
    fleet.begin()
    fleet.load(a=0.4, b=0.4)
    fleet.submit("a", "east")
    fleet.submit("b", "east")
    wait_for(lambda: fleet.runs_on("a") == fleet.runs_on("b") == "east-1", "both on one host")
    fleet.load(a=1.1, b=1.1)
    wait_for(lambda: {fleet.runs_on("a"), fleet.runs_on("b")} == {"east-1", "east-2"}, "one on a second host")
    assert any("east-2" in text for text in fleet.events("host-started"))
    fleet.load(a=0.1, b=0.1)
    wait_for(lambda: len([name for name in fleet.registry.hosts() if name.startswith("east")]) == 1, "one host again")
    wait_for(lambda: fleet.runs_on("a") == fleet.runs_on("b") is not None, "both on one host again")
    for name in ("a", "b"):
        rows = [row for row, _ in fleet.rows(name)]
        assert rows == list(range(len(rows)))
    fleet.kill_centre()
    for journal, words in (
        (fleet.folder.centre_journal, ("done: + host east-2 in east", "requests 1 more", "done: − host")),
        (fleet.folder.region_journal("east"), ("centre (requested from the centre, which decides)", "% busy")),
        (fleet.folder.host_journal("east-1"), ("no streaming query is running",)),
    ):
        told = CliRunner().invoke(app, ["explain", str(journal)]).output
        for word in words:
            assert word in told, f"{journal.parent.name}: {told[:3000]}"
