"""Fencing: no error ends the renewals, no doubt gives a lease away, and a run that was replaced commits nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.fleet.conftest import StubFleet, wait_for
from tidegate.adapters.spark.gatefile import check_fence
from tidegate.adapters.spark.settings import Settings
from tidegate.domain.epochs import StaleEpoch
from tidegate.evaluate.measurement import MeasurementPlan
from tidegate.fleet.agent import Agent
from tidegate.fleet.calls import TcpWire
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Ports
from tidegate.fleet.tenant import Figures, RunOrder
from tidegate.fleet.vocabulary import ApplicationSpec, Assigned, HostSpec, Phase

LEASE_S = 2.0


class Query:
    def __init__(self) -> None:
        self.killed = False

    def failure(self) -> str | None:
        return None

    def stop(self) -> None:
        self.killed = True

    kill = stop


class Runner:
    """Starts queries, fails, or fails after it has started one."""

    def __init__(self) -> None:
        self.fate = "starts"
        self.can_clear = True
        self.queries: list[Query] = []
        self.orders: list[RunOrder] = []

    def start(self, spec: ApplicationSpec, order: RunOrder) -> Query:
        self.orders.append(order)
        self.queries.append(Query())
        if self.fate == "fails-after":
            raise TimeoutError("the driver does not answer")
        return self.queries[-1]

    def clear(self, application: str) -> None:
        if not self.can_clear:
            raise TimeoutError("the driver does not answer this either")
        for query in self.queries:
            query.kill()

    def figures(self, application: str) -> Figures:
        return Figures()

    def measure(self, plan: MeasurementPlan) -> None:
        pass


class Dog:
    def __init__(self) -> None:
        self.said: list[float | None] = []

    def allow_until(self, deadline_s: float | None) -> None:
        self.said.append(deadline_s)

    def let_go(self) -> None:
        pass


class OneHost:
    def __init__(self, root: Path) -> None:
        self.folder = FleetFolder(root)
        self.folder.lease("a").create()
        self.runner, self.dog = Runner(), Dog()
        self.agent = Agent(
            HostSpec("h", "east", 2), self.folder, self.runner, Ports(TcpWire(b"t" * 32), self.dog), lease_s=LEASE_S
        )

    def begin(self) -> None:
        self.agent.desire(1, (Assigned(ApplicationSpec("a", "x"), None, 0.0),))

    def phase(self) -> Phase | None:
        return next((tenancy.phase for tenancy in self.agent.status().tenancies), None)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[OneHost]:
    made = OneHost(tmp_path)
    yield made
    made.agent.end()
    made.agent.cut_off()
    for tenant in made.agent.tenants():
        tenant.dismiss()


def test_an_error_of_any_kind_does_not_end_the_renewals(host: OneHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.begin()
    wait_for(lambda: host.phase() is Phase.RUNNING, "the query")
    (tenant,) = host.agent.tenants()
    renewed = type(tenant.lease).renew
    fails = [MemoryError("no memory"), ValueError("nonsense"), KeyError("nothing like it")]

    def renew(lease: object) -> None:
        if fails:
            raise fails.pop()
        renewed(lease)  # type: ignore[arg-type]

    monkeypatch.setattr(type(tenant.lease), "renew", renew)
    wait_for(lambda: not fails, "three errors")
    before = tenant.expires_s
    assert before is not None
    wait_for(lambda: (tenant.expires_s or 0.0) > before, "a renewal after them")
    assert host.phase() is Phase.RUNNING


def test_a_lease_is_not_given_back_while_the_query_may_run(host: OneHost) -> None:
    """The start fails after the driver has started the query, and it cannot be asked either."""
    host.runner.fate, host.runner.can_clear = "fails-after", False
    host.begin()
    wait_for(lambda: host.runner.queries, "the start")
    time.sleep(0.3)
    record = host.folder.lease("a").read()
    assert record is not None
    assert not record.released, "nobody takes over before the watchdog has ended this host"
    told = host.dog.said[-1]
    time.sleep(2 * LEASE_S / 8)
    assert told is not None
    assert host.dog.said[-1] == told, "and its time is not extended any more"


def test_a_failed_start_is_cleared_away_before_the_lease_goes_back(host: OneHost) -> None:
    host.runner.fate = "fails-after"
    host.begin()
    wait_for(lambda: host.phase() is Phase.FAILED, "the failure")
    assert all(query.killed for query in host.runner.queries)
    record = host.folder.lease("a").read()
    assert record is not None
    assert record.released


def test_the_watchdog_knows_of_the_lease_before_the_query_starts(host: OneHost) -> None:
    told: list[list[float | None]] = []
    start = host.runner.start

    def watched(spec: ApplicationSpec, order: RunOrder) -> Query:
        told.append(list(host.dog.said))
        return start(spec, order)

    host.runner.start = watched  # type: ignore[method-assign]
    host.begin()
    wait_for(lambda: told, "the start")
    assert told[0][-1] is not None


def test_a_host_that_was_given_up_shows_its_card_again_and_a_replaced_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.fleet.agent._CARD_S", 0.05)
    host = OneHost(tmp_path)
    host.folder.remove_card(host.agent.card)
    wait_for(lambda: host.folder.read_card("h") == host.agent.card, "its card")
    other = OneHost(tmp_path)
    assert host.agent.wait(10), "there is another h now"
    assert not other.agent.ending
    other.agent.close()
    assert host.folder.read_card("h") is None


def test_the_epoch_reaches_the_settings_and_the_gate(host: OneHost) -> None:
    host.begin()
    order = wait_for(lambda: host.runner.orders, "the start")[0]
    settings = Settings("a", str(order.gate), epoch=order.epoch, lease=str(order.lease))
    settings.check_epoch()
    check_fence(order.gate)
    (order.lease / "0000000002.lease").write_text("{}")
    with pytest.raises(StaleEpoch, match="this run has epoch 1, and the lease is in epoch 2"):
        settings.check_epoch()
    with pytest.raises(StaleEpoch):
        check_fence(order.gate)
    Settings("b").check_epoch()  # outside of a fleet there is nothing to check
    check_fence(host.folder.root / "gate.json")


@pytest.mark.slow
def test_a_host_that_wakes_after_its_lease_went_to_another_commits_nothing(fleet: StubFleet) -> None:
    """The whole machine stood still, the watchdog too: only the sink is left to refuse what the host still does."""
    fleet.begin()
    fleet.submit("a", "east", sink=True)
    path = fleet.folder.root / "sink.db"
    wait_for(lambda: path.exists() and _committed(path), "rows in the sink")
    host = psutil.Process(fleet.pid("east-1"))
    dogs = [child for child in host.children() if "watchdog" in " ".join(child.cmdline())]
    assert dogs
    # Taken out of its provider's hands: nobody can reach the machine, to kill the host for instance.
    fleet.registry.put_host(HostSpec("east-1", "east", 2), None)
    for process in (*dogs, host):
        process.send_signal(signal.SIGSTOP)
    while _locked(path):  # stopped in the middle of a transaction, which a database server would roll back
        host.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        host.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: _epoch(path) == 2, "another host to take over")
        begun = _committed(path)
        os.kill(host.pid, signal.SIGCONT)  # it wakes before its watchdog does
        refused = fleet.folder.root / "refused"
        wait_for(refused.exists, "the host to try")
        assert "epoch 1" in refused.read_text()
    finally:
        for process in (host, *dogs):
            process.send_signal(signal.SIGCONT)
    wait_for(lambda: _committed(path) > begun, "the new run to go on")
    with sqlite3.connect(path) as sink:
        rows = sink.execute("SELECT row, epoch FROM rows ORDER BY rowid").fetchall()
    assert [row for row, _ in rows] == list(range(len(rows))), "no row is lost, none is written twice"
    assert [epoch for _, epoch in rows] == sorted(epoch for _, epoch in rows), "and none after a newer run began"


def _locked(path: Path) -> bool:
    try:
        with sqlite3.connect(path, timeout=0.2) as sink:
            sink.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    return False


def _committed(path: Path) -> int:
    with sqlite3.connect(path) as sink:
        if not sink.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
            return 0  # it is about to be made
        return int(sink.execute("SELECT count(*) FROM rows").fetchone()[0])


def _epoch(path: Path) -> int:
    with sqlite3.connect(path) as sink:
        return int(sink.execute("SELECT epoch FROM newest").fetchone()[0])
