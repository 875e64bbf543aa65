"""Where decisions and knowledge outlive the process: one SQLite file, written ahead, read by anyone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from tidegate.control.entry import Entry, Note
from tidegate.control.knowledge import Knowledge
from tidegate.domain import Decision, InvalidInput, Observation, Receipt
from tidegate.domain.codec import from_json, to_json

_SCHEMA = """
CREATE TABLE IF NOT EXISTS steps (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, observation TEXT, decision TEXT, receipt TEXT);
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, event TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS knowledge (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL);
"""
_TABLES = {"steps", "notes", "knowledge"}
_KEEP_OBSERVATIONS = 90_000  # a day at one a second; decisions are kept for good
_TRIM_EVERY = 1000


class MemoryJournal:
    """Keeps everything in lists, for tests and simulations."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.notes: list[Note] = []
        self.knowledge: Knowledge | None = None

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None:
        self.entries.append(Entry(observation.time_s, observation, decision, receipt))

    def note(self, time_s: float, event: str, text: str) -> None:
        self.notes.append(Note(time_s, event, text))

    def load(self) -> Knowledge | None:
        return self.knowledge

    def save(self, knowledge: Knowledge) -> None:
        self.knowledge = from_json(Knowledge, to_json(knowledge))


class SqliteJournal:
    """Journal and knowledge store in one file. A write that has returned survives a crash of the process."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()  # the control thread writes while the user's thread may read
        self._since_trim = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(f"store {self.path}: cannot be used ({error}); give another path") from None

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None:
        row = (
            observation.time_s,
            to_json(observation),
            to_json(decision) if decision else None,
            to_json(receipt) if receipt else None,
        )
        with self._lock:
            self._db.execute("INSERT INTO steps (time_s, observation, decision, receipt) VALUES (?, ?, ?, ?)", row)
            self._since_trim += 1
            if self._since_trim >= _TRIM_EVERY:
                self._since_trim = 0
                self._db.execute(
                    "UPDATE steps SET observation = NULL WHERE observation IS NOT NULL"
                    " AND id <= (SELECT max(id) FROM steps) - ?",
                    (_KEEP_OBSERVATIONS,),
                )

    def note(self, time_s: float, event: str, text: str) -> None:
        with self._lock:
            self._db.execute("INSERT INTO notes (time_s, event, text) VALUES (?, ?, ?)", (time_s, event, text))

    def load(self) -> Knowledge | None:
        with self._lock:
            row = self._db.execute("SELECT body FROM knowledge").fetchone()
        if row is None:
            return None
        try:
            return from_json(Knowledge, row[0])
        except ValueError as error:  # written by another version: learn afresh rather than fail the job
            self.note(0.0, "knowledge-dropped", f"stored knowledge is of another form: {str(error).splitlines()[0]}")
            return None

    def save(self, knowledge: Knowledge) -> None:
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO knowledge (id, body) VALUES (1, ?)", (to_json(knowledge),))

    def close(self) -> None:
        with self._lock:
            self._db.close()


def read_entries(path: str | Path, observations: bool = True) -> Iterator[Entry]:
    """The steps of a journal file, oldest first; without observations it is much quicker."""
    column = "observation" if observations else "NULL"
    with closing(_reading(path)) as database:
        for time_s, observation, decision, receipt in database.execute(
            f"SELECT time_s, {column}, decision, receipt FROM steps ORDER BY id"
        ):
            yield Entry(
                time_s,
                from_json(Observation, observation) if observation else None,
                from_json(Decision, decision) if decision else None,
                from_json(Receipt, receipt) if receipt else None,
            )


def read_notes(path: str | Path) -> list[Note]:
    """What happened to the control itself, oldest first."""
    with closing(_reading(path)) as database:
        return [Note(*row) for row in database.execute("SELECT time_s, event, text FROM notes ORDER BY id")]


def read_knowledge(path: str | Path) -> Knowledge | None:
    """What the controller last knew; None where it never said, or in a form of another version."""
    with closing(_reading(path)) as database:
        row = database.execute("SELECT body FROM knowledge").fetchone()
    with suppress(ValueError):
        return from_json(Knowledge, row[0]) if row else None
    return None


def _reading(path: str | Path) -> sqlite3.Connection:
    if not Path(path).is_file():
        raise InvalidInput(f"journal {path}: no such file; a job under Tidegate writes one (see `store` in the policy)")
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        raise InvalidInput(f"journal {path}: not a Tidegate journal") from None
    if not tables >= _TABLES:
        raise InvalidInput(f"journal {path}: not a Tidegate journal")
    return database
