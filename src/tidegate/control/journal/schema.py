"""The journal file: its tables, its version, and upgrades from older versions.

| table | holds |
|---|---|
| `tail` | the newest steps, a row each (see `tail`) |
| `blocks` | stretches of older steps (see `block`); `kind` is `exact`, or `rolled` for minutes past the retention |
| `outcomes` | measured outcomes of decisions, by numbering and step: a list, or one alone from before 0.2 |
| `numberings` | entries at which decisions started to count from 1 again |
| `notes` | events of the controller itself |
| `blobs` | knowledge and policy, by name |
| `minutes`, `minutes_operators`, `minutes_pool`, `moments` | summaries of sealed steps (see `summary`) |
| `summarised` | the entries that the summaries cover |
| `about` | `wal`: whether the main file is complete without its -wal file |
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate.control.journal.block import write_block
from tidegate.control.journal.summary import create
from tidegate.domain import InvalidInput

logger = logging.getLogger("tidegate")

VERSION = 2
KNOWLEDGE = "knowledge"
WHOLE, MORE = "whole", "more in -wal"
_APPLICATION_ID = 0x54494445  # "TIDE"
_V1_TABLES = {"steps", "notes", "knowledge"}
_UPGRADE_STEPS = 600
_SHARED = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "gpfs", "9p", "afs", "beegfs"}

_TABLES = """
CREATE TABLE tail (id INTEGER PRIMARY KEY, stretch INTEGER NOT NULL, bucket INTEGER NOT NULL, base INTEGER,
    time_s REAL NOT NULL, step INTEGER, body BLOB NOT NULL);
CREATE TABLE blocks (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, start_s REAL NOT NULL, end_s REAL NOT NULL,
    kind TEXT NOT NULL, steps INTEGER NOT NULL, last_step INTEGER, body BLOB NOT NULL, acted BLOB);
CREATE TABLE numberings (first INTEGER PRIMARY KEY);
CREATE TABLE outcomes (numbering INTEGER NOT NULL, step INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (numbering, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, event TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE blobs (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO numberings VALUES (0);
"""


def open_to_write(path: Path, timeout_s: float) -> sqlite3.Connection:
    """A connection to a journal of the current version. The file is created or upgraded if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # -wal and -shm get the same mode
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=timeout_s)
    try:
        # A write-ahead log needs shared memory, so it does not work across machines.
        database.execute(f"PRAGMA journal_mode={'DELETE' if on_shared_folder(path) else 'WAL'}")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA wal_autocheckpoint=0")  # see `checkpoint`
        if version_of(database, path) < VERSION:
            _upgrade(database, path)
        create(database)
    except BaseException:
        database.close()
        raise
    return database


def on_shared_folder(path: Path, mounts: str | None = None) -> bool:
    """Is the file on a file system that other machines mount too? False if that cannot be determined.

    >>> on_shared_folder(Path("/data/jobs/j.db"), "/dev/sda1 / ext4 rw 0 0\\nnas:/x /data nfs4 rw 0 0")
    True
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text()
        except OSError:
            return False
    rows = [line.split() for line in mounts.splitlines()]
    above = [str(folder) for folder in path.absolute().parents]
    kinds = [(len(row[1]), row[2]) for row in rows if len(row) > 2 and row[1] in above]
    return max(kinds, default=(0, ""))[1].partition(".")[0] in _SHARED


def open_to_read(path: Path) -> sqlite3.Connection:
    """A read-only connection. Raises a one-line error if the file is not a journal or is incomplete."""
    if not path.is_file():
        raise InvalidInput(
            f"journal {path}: no such file; a job under Tidegate writes one (journal.path in the policy)"
        )
    wal = path.with_name(path.name + "-wal")
    alone = not wal.exists() or not wal.stat().st_size  # check before SQLite creates an empty one
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        try:
            version = version_of(database, path)
        except sqlite3.OperationalError as error:  # -shm cannot be created in a read-only folder
            if not alone:
                raise InvalidInput(f"journal {path}: cannot be read ({error}); copy it with {wal.name}") from None
            database.close()
            database = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
            version = version_of(database, path)
        if version == 0:
            raise InvalidInput(f"journal {path}: not a Tidegate journal")
        if version == VERSION and alone:
            row = database.execute("SELECT value FROM about WHERE name = 'wal'").fetchone()
            if row is not None and row[0] == MORE:
                raise InvalidInput(
                    f"journal {path}: its newest steps are in {wal.name}, which is missing; copy both files, "
                    f"or copy with: sqlite3 JOURNAL '.backup COPY'"
                )
    except BaseException:
        database.close()
        raise
    return database


def version_of(database: sqlite3.Connection, path: Path) -> int:
    """The version of the file, 0 if it is empty. Raises if it is not a journal or a newer Tidegate wrote it."""
    try:
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        raise InvalidInput(f"journal {path}: not a Tidegate journal") from None
    if not tables and not version:
        return 0
    ours = database.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
    if ours and version > VERSION:
        raise InvalidInput(
            f"journal {path}: written by a newer Tidegate (format {version}, not {VERSION}); upgrade this Tidegate"
        )
    if ours and version == VERSION:
        return VERSION
    if version == 0 and tables >= _V1_TABLES:
        return 1
    raise InvalidInput(f"journal {path}: not a Tidegate journal")


def checkpoint(database: sqlite3.Connection, closing: bool = False) -> None:
    """Move everything into the main file.

    SQLite's automatic checkpoints are off. Our checkpoints mark the main file as continued in the -wal file, and the
    first transaction after a checkpoint removes the mark. A copy of the main file alone is therefore recognised as
    incomplete.
    """
    say = "INSERT OR REPLACE INTO about VALUES ('wal', ?)"
    database.execute(say, (WHOLE if closing else MORE,))
    database.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if closing else 'PASSIVE'})").fetchall()
    if not closing:
        database.execute(say, (WHOLE,))


def _upgrade(database: sqlite3.Connection, path: Path) -> None:
    """Upgrade in one transaction: a crash leaves the old file unchanged."""
    database.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(database, path)  # another process may have upgraded it already
        if version < VERSION:
            for statement in _TABLES.split(";"):
                database.execute(statement)
            if version == 1:
                logger.info("journal %s: upgrading from format 1", path)
                _take_over_v1(database)
            database.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            database.execute(f"PRAGMA user_version={VERSION}")
        database.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise
    if version == 1:
        with suppress(OSError, sqlite3.Error):
            path.chmod(0o600)
            database.execute("VACUUM")  # a tenth of the pages is still in use
    checkpoint(database)


def _take_over_v1(database: sqlite3.Connection) -> None:
    steps = read_v1(database)
    last_step: int | None = None
    while some := list(islice(steps, _UPGRADE_STEPS)):
        times = [tree["t"] for tree in some]
        for tree in some:
            step = tree["d"]["step"] if tree["d"] else None
            if step is not None:
                if last_step is not None and step <= last_step:
                    database.execute("INSERT OR IGNORE INTO numberings VALUES (?)", (tree["i"],))
                last_step = step
        database.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, 'exact', ?, ?, ?, NULL)",
            (some[0]["i"], some[-1]["i"], min(times), max(times), len(some), last_step, write_block(some)),
        )
    database.execute("INSERT INTO blobs SELECT ?, CAST(body AS BLOB) FROM knowledge", (KNOWLEDGE,))
    database.execute("DROP TABLE steps")
    database.execute("DROP TABLE knowledge")


def read_v1(database: sqlite3.Connection, after: int = 0) -> Iterator[dict[str, Any]]:
    """Steps of the first format, as plain values: three JSON texts each."""
    for number, time_s, *texts in database.execute(
        "SELECT id, time_s, observation, decision, receipt FROM steps WHERE id > ? ORDER BY id", (after,)
    ):
        observation, decision, receipt = (json.loads(text) if text else None for text in texts)
        yield {"i": number, "t": time_s, "o": observation, "d": decision, "r": receipt}
