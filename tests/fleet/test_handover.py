"""What a host knows of an application moves with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.core.worlds import application
from tests.fleet.stub_host import StubWorld
from tidegate.control.journal import SqliteJournal
from tidegate.domain import ExecutorPool, Observation
from tidegate.fleet.calls import fleet_wire
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.hostcontrol import Handover, HostControl
from tidegate.fleet.protocol import make_token
from tidegate.fleet.vocabulary import ApplicationSpec, HostCard, HostSpec

WORDS = ApplicationSpec("app", "module:build")


class Limited(StubWorld):
    """A host whose application is limited to so many rows per batch."""

    def __init__(self, rows: int | None) -> None:
        self.rows = rows

    def observe(self) -> Observation:
        sample = replace(application(()), admission_rows=self.rows)
        return Observation(1000.0, (sample,), ExecutorPool((), 0, 1))


def host(folder: FleetFolder, name: str, rows: int | None) -> HostControl:
    config = FleetConfig()
    card = HostCard(HostSpec(name, "east", 2), "first", ("127.0.0.1", 1), pid=1, started_s=0.0)
    folder.host(name).mkdir(parents=True, exist_ok=True)
    journal = SqliteJournal(folder.host_journal(name))
    return HostControl(card, config, folder, fleet_wire(folder, config), Limited(rows), journal)


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    found = FleetFolder(tmp_path / "fleet")
    make_token(found.token)
    folder = found.application("app")
    folder.mkdir(parents=True)
    return found


def test_its_first_batch_on_another_host_has_the_limit_that_it_had(folder: FleetFolder) -> None:
    """The cost of a row is not known there yet, and rows have piled up while it moved."""
    before, after = host(folder, "east-1", 900), host(folder, "east-2", None)
    assert before.began(WORDS) is None
    before.runner.tick()
    before.end()
    assert after.began(WORDS) == 900
    after.end()
    folder.learned("app").write_bytes(Handover({}, 300).to_bytes())
    assert before.began(WORDS) == 300
    before.end()
    assert Handover.from_bytes(folder.learned("app").read_bytes()).batch_rows == 300, "an earlier stay says nothing"


@pytest.mark.parametrize("body", [b'{"lookup": {"policy": "threshold"}}', b"{", b"[]", b'{"batch_rows": 3, "more": 1}'])
def test_what_another_version_has_stored_is_left_alone(folder: FleetFolder, body: bytes) -> None:
    folder.learned("app").write_bytes(body)
    found = host(folder, "east-1", None)
    assert found.began(WORDS) is None
    found.end()
