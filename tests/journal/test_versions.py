"""Files of other versions, of other kinds, and files that are not whole."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.journal.worlds import steps, write
from tidegate.cli.app import app
from tidegate.control.journal import (
    SqliteJournal,
    read_entries,
    read_knowledge,
    read_notes,
    schema,
)
from tidegate.domain import InvalidInput
from tidegate.domain.codec import to_json

V1 = """
CREATE TABLE steps (id INTEGER PRIMARY KEY, time_s REAL NOT NULL, observation TEXT, decision TEXT, receipt TEXT);
CREATE TABLE notes (id INTEGER PRIMARY KEY, time_s REAL NOT NULL, event TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE knowledge (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL);
"""


def v1_file(path: Path, count: int = 700) -> Path:
    """A journal as the first version wrote it: the oldest observations are gone already."""
    with sqlite3.connect(path) as database:
        database.executescript(V1)
        for number, (observation, decision, receipt) in enumerate(steps(count)):
            seen = to_json(observation) if number >= 5 else None
            answer = to_json(receipt) if receipt else None
            row = (observation.time_s, seen, to_json(decision), answer)
            database.execute("INSERT INTO steps (time_s, observation, decision, receipt) VALUES (?, ?, ?, ?)", row)
        database.execute("INSERT INTO notes (time_s, event, text) VALUES (1.0, 'control-started', 'mode apply')")
        database.execute("INSERT INTO knowledge VALUES (1, ?)", ('{"step": 700}',))
    return path


def holds_all(path: Path, count: int = 700) -> bool:
    found = [(entry.observation, entry.decision, entry.receipt) for entry in read_entries(path)]
    given = [(step[0] if place >= 5 else None, *step[1:]) for place, step in enumerate(steps(count))]
    notes = [note.event for note in read_notes(path)]
    return found == given and notes == ["control-started"]


def test_a_file_of_the_first_version_is_read_through(tmp_path: Path) -> None:
    path = v1_file(tmp_path / "v1.db", 150)
    before = path.read_bytes()
    assert holds_all(path, 150)
    for command in ("explain", "operators"):
        shown = CliRunner().invoke(app, [command, str(path)])
        assert shown.exit_code == 0, shown.output
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_file_of_the_first_version_is_upgraded_when_written_to(tmp_path: Path) -> None:
    path = v1_file(tmp_path / "v1.db")
    size = path.stat().st_size
    journal = SqliteJournal(path)
    assert read_knowledge(path) is None, "the first version's knowledge has another form: it is learned again"
    assert holds_all(path)
    journal.record(*steps(701)[700])
    assert [entry.number for entry in read_entries(path, after=699)] == [700, 701]
    journal.close()
    assert path.stat().st_size < size / 10
    for command in ("explain", "operators"):
        assert CliRunner().invoke(app, [command, str(path)]).exit_code == 0


def test_an_upgrade_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = v1_file(tmp_path / "v1.db", 150)
    calls = []

    def full(trees: list[object]) -> bytes:
        calls.append(trees)
        if len(calls) == 2:
            raise sqlite3.OperationalError("database or disk is full")
        return b""

    monkeypatch.setattr(schema, "write_block", full)
    monkeypatch.setattr(schema, "_UPGRADE_STEPS", 100)
    with pytest.raises(InvalidInput, match="disk is full"):
        SqliteJournal(path)
    assert len(calls) == 2
    assert holds_all(path, 150)


def test_a_file_from_the_future_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    SqliteJournal(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=3")
    for use in (lambda: list(read_entries(path)), lambda: SqliteJournal(path)):
        with pytest.raises(InvalidInput, match=r"newer Tidegate \(format 3, not 2\)") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_other_databases_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="not a Tidegate journal"):
        SqliteJournal(path)
    with sqlite3.connect(path) as database:
        assert [row[0] for row in database.execute("SELECT name FROM sqlite_master")] == ["t"]
    assert len(before) == path.stat().st_size


@pytest.mark.parametrize("written", [1, 300])  # before and after the first checkpoint
def test_a_copy_without_its_wal_file_is_refused_while_the_job_runs(tmp_path: Path, written: int) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    write(journal, steps(300)[:written])
    copy = tmp_path / "copy" / "j.db"
    copy.parent.mkdir()
    shutil.copy(journal.path, copy)
    with pytest.raises(InvalidInput, match=r"newest steps are in j.db-wal, which is missing; copy both files"):
        list(read_entries(copy))
    shutil.copy(f"{journal.path}-wal", f"{copy}-wal")
    assert len(list(read_entries(copy))) == written
    journal.close()
    shutil.copy(journal.path, tmp_path / "whole.db")
    assert len(list(read_entries(tmp_path / "whole.db"))) == written
