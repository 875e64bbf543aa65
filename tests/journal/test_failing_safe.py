"""Whatever happens to the file, the control loop goes on, and the journal says what it lacks."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from tests.journal.worlds import steps, write
from tidegate.control.journal import SqliteJournal, read_entries, read_notes, writer


def test_steps_wait_while_another_connection_holds_the_lock(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db", retry_s=0.0)
    other = sqlite3.connect(journal.path, isolation_level=None)
    write(journal, steps(12)[:2])
    other.execute("BEGIN EXCLUSIVE")
    write(journal, steps(12)[2:5])
    journal.note(5.0, "waiting", "too")
    journal.save_blob("knowledge", b"seven")
    assert len(list(read_entries(journal.path))) == 2
    assert journal.load_blob("knowledge") == b"seven", "what waits is known to its writer"
    other.execute("COMMIT")
    write(journal, steps(12)[5:])
    assert [entry.decision for entry in read_entries(journal.path)] == [step[1] for step in steps(12)]
    assert [note.event for note in read_notes(journal.path)] == ["waiting"]


def test_a_lock_does_not_hold_up_every_step(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db", retry_s=60.0)
    other = sqlite3.connect(journal.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    write(journal, steps(12)[:1])
    began_s = time.monotonic()
    write(journal, steps(12)[1:])
    assert time.monotonic() - began_s < 0.5
    other.execute("COMMIT")
    journal.close()
    assert len(list(read_entries(journal.path))) == 12, "the end does not wait for the next try"


def test_the_oldest_are_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MOST_PENDING", 4)
    journal = SqliteJournal(tmp_path / "j.db", retry_s=60.0)
    other = sqlite3.connect(journal.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    write(journal, steps(12))
    other.execute("COMMIT")
    journal.close()
    assert [entry.decision for entry in read_entries(journal.path)] == [step[1] for step in steps(12)[-4:]]
    (note,) = read_notes(journal.path)
    assert note.event == "journal-dropped"
    assert note.text.startswith("8 steps and notes were dropped, oldest first: database is locked")


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db", retry_s=0.0)
    write(journal, steps(12)[:2])
    assert journal._database is not None
    pages = journal._database.execute("PRAGMA page_count").fetchone()[0]
    journal._database.execute(f"PRAGMA max_page_count={pages}")
    journal.save_blob("large", b"x" * 100_000)
    write(journal, steps(12)[2:])
    assert len(list(read_entries(journal.path))) < 12
    journal._database.execute("PRAGMA max_page_count=1000000")
    journal.note(0.0, "room", "again")
    assert [entry.decision for entry in read_entries(journal.path)] == [step[1] for step in steps(12)]
    assert journal.load_blob("large") == b"x" * 100_000


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "deep" / "j.db", retry_s=0.0)
    write(journal, steps(12)[:6])
    shutil.rmtree(tmp_path / "deep")
    write(journal, steps(12)[6:])
    assert [entry.decision for entry in read_entries(journal.path)] == [step[1] for step in steps(12)[6:]]
    shutil.rmtree(tmp_path / "deep")
    (tmp_path / "deep").write_text("a file where the folder was")
    write(journal, steps(12)[:3])
    journal.note(0.0, "nowhere", "to go")
    journal.judge(1, {})
    assert journal.load_blob("knowledge") is None
    journal.close()
    (tmp_path / "deep").unlink()
    journal.note(0.0, "back", "again")
    assert len(list(read_entries(journal.path))) == 3
    assert [note.event for note in read_notes(journal.path)] == ["nowhere", "back"]


def test_a_note_that_no_database_takes_does_not_stop_the_others(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    journal.note(float("nan"), "odd", "half a character: \ud800")
    journal.note(1.0, "next", "one")
    assert [note.event for note in read_notes(journal.path)] == ["odd", "next"]


def test_only_its_owner_may_read_it_and_closing_leaves_one_file(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    write(journal, steps(12))
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert files == {"j.db": 0o600, "j.db-wal": 0o600, "j.db-shm": 0o600}
    journal.close()
    journal.close()
    assert [file.name for file in tmp_path.iterdir()] == ["j.db"]
    assert len(list(read_entries(journal.path))) == 12
    journal.note(0.0, "late", "after the end")
    assert [note.event for note in read_notes(journal.path)] == ["late"]
