"""A transactional sink in SQLite: each batch is one transaction, identified by its number, so a repeat changes nothing.

Every batch is stored with the number of the run that wrote it. A run that finds a newer run in the sink must not write.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_LOCK_WAIT_S = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY, run INTEGER, committed_s REAL, total INTEGER);
CREATE TABLE IF NOT EXISTS counts (key TEXT PRIMARY KEY, count INTEGER);
CREATE TABLE IF NOT EXISTS ids (id INTEGER);
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """One committed batch."""

    number: int
    run: int
    committed_s: float
    total: int
    """Rows in the sink after it."""


class Sink:
    """The output of one job, for writing and for read-only inspection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._open()) as database:
            database.executescript("PRAGMA journal_mode=WAL;" + _TABLES)

    def put_counts(self, batch: int, run: int, counts: Iterable[tuple[str, int]], check: Callable[[], None]) -> None:
        """Replace the counts of these keys. `check` is called inside the transaction; if it raises, the transaction is
        rolled back."""
        self._put(
            batch, run, "INSERT OR REPLACE INTO counts VALUES (?, ?)", counts, "SELECT sum(count) FROM counts", check
        )

    def put_ids(self, batch: int, run: int, ids: Iterable[int], check: Callable[[], None]) -> None:
        """Add these ids. An id that already exists is then stored twice."""
        self._put(batch, run, "INSERT INTO ids VALUES (?)", ((row,) for row in ids), "SELECT count(*) FROM ids", check)

    def counts(self) -> dict[str, int]:
        with closing(self._open()) as database:
            return dict(database.execute("SELECT key, count FROM counts"))

    def copies(self) -> dict[int, int]:
        """Return how often each id is stored."""
        with closing(self._open()) as database:
            return dict(database.execute("SELECT id, count(*) FROM ids GROUP BY id"))

    def batches(self) -> list[Batch]:
        """In the order in which they were committed."""
        with closing(self._open()) as database:
            return [Batch(*row) for row in database.execute("SELECT * FROM batches ORDER BY committed_s, id")]

    def newest(self) -> Batch | None:
        with closing(self._open()) as database:
            row = database.execute("SELECT * FROM batches ORDER BY id DESC LIMIT 1").fetchone()
            return Batch(*row) if row else None

    def total(self) -> int:
        """Return the number of rows in the sink."""
        newest = self.newest()
        return newest.total if newest is not None else 0

    def locked(self) -> bool:
        """Return whether another connection is in the middle of a transaction."""
        with closing(sqlite3.connect(self._path, timeout=0.1, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            return False

    def _put(
        self,
        batch: int,
        run: int,
        insert: str,
        rows: Iterable[tuple[object, ...]],
        total: str,
        check: Callable[[], None],
    ) -> None:
        with closing(self._open()) as database:
            database.execute("BEGIN IMMEDIATE")
            newest = database.execute("SELECT max(run) FROM batches").fetchone()[0] or 0
            if newest > run:
                raise RuntimeError(f"run {run} may not write: run {newest} has taken its place")
            if database.execute("SELECT 1 FROM batches WHERE id = ?", (batch,)).fetchone():
                return
            database.executemany(insert, rows)
            written = database.execute(total).fetchone()[0] or 0
            check()
            database.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (batch, run, time.time(), written))
            database.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_LOCK_WAIT_S, isolation_level=None)
