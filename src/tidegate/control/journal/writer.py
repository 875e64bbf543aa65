"""The journal of a running job: one SQLite file with a write-ahead log. Writing it never blocks the job."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.control.journal.schema import checkpoint, open_to_write
from tidegate.control.journal.sealing import Retention, retire, seal, transaction
from tidegate.control.journal.steps import tree_of
from tidegate.control.journal.tail import packed, text_of
from tidegate.domain import Decision, InvalidInput, Observation, Receipt

logger = logging.getLogger("tidegate")

_STRETCH_S = 600.0
_MOST_STRETCH = 2400  # steps per block
_MOST_PENDING = 2000
_MOST_PENDING_BYTES = 16_000_000
_LARGEST = 1 << 63  # SQLite's largest integer
_LATEST_S = 1e15
_OPEN_WAIT_S = 5.0
_WRITE_WAIT_S = 0.1  # the control loop waits no longer than this for a lock
_LONGEST_RETRY_S = 30.0
_CHECKPOINT_EVERY = 256  # steps
_ADD_OUTCOME = """
INSERT INTO outcomes VALUES ((SELECT max(first) FROM numberings), ?1, '[' || ?2 || ']')
ON CONFLICT (numbering, step) DO UPDATE SET body =
    CASE WHEN body LIKE '[%' THEN rtrim(body, ']') ELSE '[' || body END || ',' || ?2 || ']'
"""  # plain text functions, because not every SQLite has those for JSON


@dataclass(frozen=True, slots=True)
class _Step:
    time_s: float
    step: int | None
    text: bytes


@dataclass(frozen=True, slots=True)
class _Statement:
    """Anything else to write."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The stretch that the next row joins. Rows of one stretch differ little from each other."""

    first: int
    bucket: int
    newest: int
    text: bytes
    rows: int = 1


class SqliteJournal:
    """Journal and knowledge store in one file. A written step survives a crash of the process.

    Recording is best effort. While the file cannot be written (locked, disk full, folder gone), steps and notes wait
    in a bounded queue and writing is retried. When the queue is full, the oldest are dropped, and a note says how
    many. Only the constructor raises errors about the file. A closed journal reopens when it is written to.
    """

    def __init__(
        self, path: str | Path, keep_days: float = 7.0, max_megabytes: float = 200.0, retry_s: float = 0.5
    ) -> None:
        self.path = Path(path)
        self._retention = Retention(keep_days, max_megabytes)
        self._first_retry_s = self._retry_s = retry_s
        self._retry_at = 0.0
        self._lock = threading.RLock()  # the control thread writes while the user's thread may read
        self._pending: deque[_Step | _Statement] = deque()
        self._pending_bytes = 0
        self._blobs: dict[str, bytes] = {}
        self._dropped = 0
        self._trouble = ""
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._stretch: _Stretch | None = None
        self._finished: set[int] = set()
        self._next = 1
        self._last_step: int | None = None
        self._unsaved = 0
        self._sealer: threading.Thread | None = None
        try:
            self._open(_OPEN_WAIT_S)
        except (sqlite3.Error, OSError, InvalidInput) as error:
            raise InvalidInput(f"journal {self.path}: cannot be used ({error}); give another path") from None

    # recording

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None:
        """Record one step."""
        text = text_of(tree_of(observation, decision, receipt))
        step = decision.step if decision is not None and abs(decision.step) < _LARGEST else None
        self._write(_Step(_indexed(observation.time_s), step, text))

    def note(self, time_s: float, event: str, text: str) -> None:
        text = text.encode("utf-8", "replace").decode()  # text that SQLite refuses would block the whole queue
        self._write(
            _Statement("INSERT INTO notes (time_s, event, text) VALUES (?, ?, ?)", (_indexed(time_s), event, text))
        )

    def judge(self, step: int, body: Mapping[str, Any]) -> None:
        """Add an outcome to the newest decision with this step. A decision has one for each application."""
        self._write(_Statement(_ADD_OUTCOME, (step, json.dumps(body, separators=(",", ":")))))

    # knowledge

    def load_blob(self, name: str) -> bytes | None:
        """What was last saved under this name."""
        with self._lock:
            if name in self._blobs:
                return self._blobs[name]
            try:
                database = self._database or self._open(_OPEN_WAIT_S)
                row = database.execute("SELECT body FROM blobs WHERE name = ?", (name,)).fetchone()
            except (sqlite3.Error, OSError, InvalidInput) as error:
                logger.warning("journal %s: %s cannot be read (%s)", self.path, name, error)
                return None
            return bytes(row[0]) if row is not None else None

    def save_blob(self, name: str, body: bytes) -> None:
        """Save `body` under this name. While the file cannot be written, the newest body waits."""
        with self._lock:
            self._blobs[name] = body
            self._flush()

    # closing

    def close(self) -> None:
        """Write what is queued, wait for sealing to finish, and leave one complete file."""
        with self._lock:
            self._flush(at_once=True)
            sealer = self._sealer
        if sealer is not None:
            sealer.join()
        with self._lock:
            if self._database is not None:
                with suppress(sqlite3.Error):
                    checkpoint(self._database, closing=True)
                self._drop_connection()

    # internals

    def _write(self, what: _Step | _Statement) -> None:
        with self._lock:
            self._pending.append(what)
            self._pending_bytes += _size(what)
            self._flush()
            while len(self._pending) > _MOST_PENDING or self._pending_bytes > _MOST_PENDING_BYTES:
                self._pending_bytes -= _size(self._pending.popleft())
                self._dropped += 1

    def _flush(self, at_once: bool = False) -> None:
        """Write the whole queue in one transaction, or retry later."""
        if not (self._pending or self._blobs) or (not at_once and time.monotonic() < self._retry_at):
            return
        before = self._stretch, self._next, self._last_step
        try:
            database = self._connection()
            with transaction(database):
                self._write_all(database)
        except (sqlite3.Error, OSError, InvalidInput) as error:
            self._stretch, self._next, self._last_step = before
            if not self._trouble:
                logger.warning("journal %s: cannot be written (%s); steps are queued and retried", self.path, error)
            self._trouble = str(error)
            self._retry_at = time.monotonic() + self._retry_s
            self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
            return
        self._unsaved += len(self._pending)
        self._pending.clear()
        self._blobs.clear()
        self._pending_bytes, self._dropped, self._trouble, self._retry_s = 0, 0, "", self._first_retry_s
        old = before[0]
        if old is not None and self._stretch is not None and old.first != self._stretch.first:
            self._finished.add(old.first)
            self._seal()
        if self._unsaved >= _CHECKPOINT_EVERY:
            self._unsaved = 0
            with suppress(sqlite3.Error):
                checkpoint(database)

    def _write_all(self, database: sqlite3.Connection) -> None:
        newest = database.execute("SELECT max(id) FROM tail").fetchone()[0] or 0
        self._next = max(self._next, newest + 1)  # another process may write here too, and may have sealed our rows
        stretch = self._stretch
        if stretch and not database.execute("SELECT 1 FROM tail WHERE id = ?", (stretch.newest,)).fetchone():
            self._stretch = None
        if self._dropped:
            times = [what.time_s for what in self._pending if isinstance(what, _Step)]
            text = f"{self._dropped} steps and notes were dropped, oldest first: {self._trouble}"
            database.execute(
                "INSERT INTO notes (time_s, event, text) VALUES (?, 'journal-dropped', ?)",
                (times[0] if times else 0.0, text),
            )
        for what in self._pending:
            if isinstance(what, _Step):
                self._write_step(database, what)
            else:
                database.execute(what.sql, what.values)
        for name, body in self._blobs.items():
            database.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (name, body))

    def _write_step(self, database: sqlite3.Connection, what: _Step) -> None:
        number, bucket, stretch = self._next, int(what.time_s // _STRETCH_S), self._stretch
        if stretch is None or stretch.bucket != bucket or stretch.rows >= _MOST_STRETCH:
            base, stretch = None, _Stretch(number, bucket, number, what.text)
            body = packed(what.text, None)
        else:
            base, body = stretch.newest, packed(what.text, stretch.text)
            stretch = _Stretch(stretch.first, bucket, number, what.text, stretch.rows + 1)
        database.execute(
            "INSERT INTO tail VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, stretch.first, bucket, base, what.time_s, what.step, body),
        )
        if what.step is not None:
            if self._last_step is not None and what.step <= self._last_step:
                database.execute("INSERT OR IGNORE INTO numberings VALUES (?)", (number,))
            self._last_step = what.step
        self._stretch, self._next = stretch, number + 1

    def _connection(self) -> sqlite3.Connection:
        """The open file, reopened if it was removed or replaced."""
        if self._database is not None and self._file != _identity(self.path):
            logger.warning("journal %s: the file was removed or replaced; starting a new one", self.path)
            self._drop_connection()
        return self._database or self._open(_WRITE_WAIT_S)

    def _open(self, wait_s: float) -> sqlite3.Connection:
        database = open_to_write(self.path, wait_s)
        try:
            newest = database.execute(
                "SELECT max(last), (SELECT last_step FROM blocks ORDER BY first DESC LIMIT 1) FROM blocks"
            ).fetchone()
            tail = database.execute(
                "SELECT max(id), (SELECT step FROM tail WHERE step IS NOT NULL ORDER BY id DESC LIMIT 1) FROM tail"
            ).fetchone()
            checkpoint(database)
            database.execute(f"PRAGMA busy_timeout={int(1000 * _WRITE_WAIT_S)}")
        except BaseException:
            database.close()
            raise
        self._next = max(newest[0] or 0, tail[0] or 0) + 1
        self._last_step = newest[1] if tail[1] is None else tail[1]
        self._database, self._file, self._stretch = database, _identity(self.path), None
        return database

    def _drop_connection(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
        self._database, self._stretch = None, None
        self._finished.clear()

    def _seal(self) -> None:
        """Seal finished stretches in another thread. It takes a while, and an interruption loses nothing."""
        if self._sealer is not None and self._sealer.is_alive():
            return  # finished stretches are sealed with the next one
        assert self._stretch is not None
        arguments = (self._stretch.first, self._stretch.bucket, frozenset(self._finished))
        self._sealer = threading.Thread(target=self._seal_all, args=arguments, name="tidegate-journal", daemon=True)
        self._sealer.start()

    def _seal_all(self, before: int, bucket: int, finished: frozenset[int]) -> None:
        try:
            database = open_to_write(self.path, _OPEN_WAIT_S)
            try:
                seal(database, before, bucket, finished)
                retire(database, self._retention)
            finally:
                database.close()
        except Exception as error:  # the rows stay, and the next sealing takes them
            logger.warning("journal %s: a stretch was not sealed (%s)", self.path, str(error).splitlines()[0])
            return
        with self._lock:
            self._finished -= finished


def _size(what: _Step | _Statement) -> int:
    return len(what.text) if isinstance(what, _Step) else 200


def _indexed(time_s: float) -> float:
    """The time by which an entry is found."""
    return time_s if abs(time_s) < _LATEST_S else 0.0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
