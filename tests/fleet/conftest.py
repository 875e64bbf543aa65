"""A fleet of stub hosts: real processes, real ports, real leases; only Spark is missing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tidegate.control.journal import SqliteJournal
from tidegate.fleet.centre import Centre
from tidegate.fleet.config import FleetConfig, store_config
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.protocol import make_token
from tidegate.fleet.provider import LocalProcesses
from tidegate.fleet.registry import Registry
from tidegate.fleet.vocabulary import ApplicationSpec, HostSpec

STUB = Path(__file__).parent / "stub_host.py"
LEASE_S = 8.0  # as by default: a busy machine may leave a process out for seconds


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = 180.0) -> Any:
    deadline_s = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for {what}")
        time.sleep(0.02)
    return found


class StubFleet:
    """Two regions; the centre runs in a thread and can be killed and begun again."""

    def __init__(self, root: Path) -> None:
        self.folder = FleetFolder(root)
        make_token(self.folder.token)
        self.config = FleetConfig.model_validate(
            {
                "regions": {"east": {"min_hosts": 1}, "west": {"min_hosts": 1}},
                "scheduler": "best-fit",
                "timing": {
                    "poll_s": 0.1,
                    "lease_s": LEASE_S,
                    "lost_after_s": 5,
                    "move_pause_s": 1000,
                    "spare_s": 2,
                },
                "managers": {"period_s": 0.5, "tokens": 10},
            }
        )
        self.registry = Registry(self.folder.registry)
        self.provider = LocalProcesses(self.folder, self._command)
        self.centre: Centre | None = None
        self.managed = False
        """Do the managers work? They take CPU that most tests need not spend."""
        self._thread: threading.Thread | None = None

    def _command(self, host: HostSpec) -> list[str]:
        words = [sys.executable, str(STUB), "--fleet", str(self.folder.root), "--name", host.name]
        words += ["--region", host.region, "--lease", str(LEASE_S)]
        return [*words, "--managers"] if self.managed else words

    def begin(self) -> None:
        store_config(self.config, self.folder)
        registry = Registry(self.folder.registry)
        journal = SqliteJournal(self.folder.centre_journal)
        self.centre = Centre(self.folder, self.config, self.provider, registry, journal=journal)
        self._thread = threading.Thread(target=self.centre.run, daemon=True)
        self._thread.start()

    def kill_centre(self) -> None:
        assert self.centre is not None
        assert self._thread is not None
        self.centre.end()
        self._thread.join()
        self.centre.close()

    def submit(self, name: str, region: str | None = None, **arguments: Any) -> None:
        self.registry.put_application(ApplicationSpec(name, "stub", arguments, region, slots=0.5))

    def load(self, **slots: float) -> None:
        """From now on these applications keep so many slots busy."""
        for name, busy in slots.items():
            draft = self.folder.root / f"{name}.draft"
            draft.write_text(str(busy))
            draft.replace(self.folder.root / f"{name}.load")

    def rows(self, name: str) -> list[tuple[int, int]]:
        """`(row, pid)` as written."""
        path = self.folder.checkpoint(name) / "rows.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(row), int(pid)) for row, pid in (line.split() for line in lines if line.count(" ") == 1)]

    def runs_on(self, name: str) -> str | None:
        """The host whose process wrote the last row, if that was a moment ago."""
        before, deadline_s = len(self.rows(name)), time.monotonic() + 5.0
        while len(rows := self.rows(name)) == before:
            if time.monotonic() > deadline_s:
                return None
            time.sleep(0.02)
        return next((card.spec.name for card in self.folder.cards() if card.pid == rows[-1][1]), None)

    def pid(self, host: str) -> int:
        card = self.folder.read_card(host)
        assert card is not None
        return card.pid

    def signal(self, host: str, number: signal.Signals) -> None:
        os.kill(self.pid(host), number)

    def events(self, kind: str) -> list[str]:
        return [f"{event.subject} {event.text}" for event in self.registry.events(1000) if event.event == kind]

    def check_rows(self, name: str) -> None:
        """No row lost; none written twice except, at most, the one that a kill cut off before its checkpoint."""
        rows = [row for row, _ in self.rows(name)]
        assert sorted(set(rows)) == list(range(max(rows) + 1))
        for number, row in enumerate(rows[1:]):
            assert row in {rows[number], rows[number] + 1}, f"row {row} after {rows[number]}: two runs at once"
            if row == rows[number]:
                assert self.rows(name)[number][1] != self.rows(name)[number + 1][1], "one run wrote a row twice"

    def close(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self.kill_centre()
        for process in psutil.process_iter(["cmdline"]):
            if str(self.folder.root) in " ".join(process.info["cmdline"] or []):
                with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[StubFleet]:
    made = StubFleet(tmp_path / "fleet")
    yield made
    for event in made.registry.events(1000):  # shown where a test fails
        print(f"{event.time_s:.1f} {event.event}: {event.subject} {event.text}")
    made.close()
