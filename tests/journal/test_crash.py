"""A crash between any two statements leaves a file that reads: all that was returned, and nothing twice."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.journal.worlds import steps
from tidegate.control.journal import SqliteJournal, read_entries, schema, sealing

_COUNT = 40


class Crash(BaseException):
    """The process is gone."""


class Watched(sqlite3.Connection):
    """Copies the files before a statement, as a crash would leave them."""

    left = 0
    source: Path
    copy: Path

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        cls = type(self)
        cls.left -= 1
        if cls.left == 0:
            for file in cls.source.parent.glob("j.db*"):
                if not file.name.endswith("-shm"):
                    shutil.copy(file, cls.copy.parent / file.name)
            raise Crash
        return super().execute(*arguments)


@pytest.mark.slow
@given(st.integers(1, 340))
@settings(max_examples=40, deadline=None)
def test_a_crash_between_any_two_statements(statement: int) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        returned, crashed = _run_until(statement, Path(one) / "j.db", Path(two) / "j.db")
        path = Path(two if crashed else one) / "j.db"
        if not path.exists() or (returned < 0 and crashed):
            return  # before there was a journal
        found = [(entry.observation, entry.decision, entry.receipt) for entry in read_entries(path)]
        given = list(steps(_COUNT, 60.0))
        assert found in (given[:returned], given[: returned + 1])
        again = SqliteJournal(path)
        again.record(*given[-1])
        again.close()
        assert len(list(read_entries(path))) == len(found) + 1


def _run_until(statement: int, path: Path, copy: Path) -> tuple[int, bool]:
    """Write steps a minute apart, sealing and retiring in turn; returns how many were, and whether it crashed."""
    Watched.left, Watched.source, Watched.copy = statement, path, copy
    plain, returned = sqlite3.connect, -1

    def connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
        return plain(*arguments, **named, factory=Watched)

    sqlite3.connect = connect  # type: ignore[assignment]
    try:
        journal = SqliteJournal(path)
        returned = 0
        journal._seal = lambda: None  # type: ignore[method-assign]
        for step in steps(_COUNT, 60.0):
            journal.record(*step)
            returned += 1
            if returned % 12 == 0 and journal._stretch is not None and journal._database is not None:
                sealing.seal(journal._database, journal._stretch.first, journal._stretch.bucket)
        journal.close()
    except Crash:
        return returned, True
    finally:
        sqlite3.connect = plain
    return returned, False


_CHILD = """
import sys
from tests.journal.worlds import steps
from tidegate.control.journal import SqliteJournal
journal = SqliteJournal(sys.argv[1])
for step in steps(2400):
    journal.record(*step)
    print(flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_was_returned(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"},
    )
    assert process.stdout is not None
    for _ in range(900):
        process.stdout.readline()
    time.sleep(0.05)  # in the midst of sealing, as often as not
    process.send_signal(signal.SIGKILL)
    told = 900 + process.stdout.read().count(b"\n")
    process.wait()
    numbers = [entry.number for entry in read_entries(path, observations=False)]
    assert numbers in (list(range(1, told + 1)), list(range(1, told + 2)))
    assert schema.version_of(schema.open_to_read(path), path) == schema.VERSION
