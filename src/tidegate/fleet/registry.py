"""The centre's registry: desired state and assignments, in SQLite, so that a new centre continues where one stopped.

Commands write requests here and the centre reads them. A request is therefore accepted even while no centre runs.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidegate.domain import InvalidInput
from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.ports import REAL_CLOCK, Clock
from tidegate.fleet.vocabulary import ApplicationSpec, HostSpec

_SCHEMA = """
CREATE TABLE IF NOT EXISTS hosts (
    name TEXT PRIMARY KEY, spec TEXT NOT NULL, handle TEXT, leaving INTEGER NOT NULL DEFAULT 0, since_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS applications (
    name TEXT PRIMARY KEY, spec TEXT NOT NULL, host TEXT, asked_host TEXT, wanted INTEGER NOT NULL DEFAULT 1);
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, event TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL);
"""


_BESIDE = ("INSERT INTO events", "DELETE FROM events", "INSERT OR REPLACE INTO facts", "BEGIN", "COMMIT")
"""Statements that change neither hosts nor applications."""
_APPLICATIONS = "SELECT name, spec, host, asked_host, wanted FROM applications"
STARTING = ""
"""The handle of a host that was requested from the provider and has no handle yet."""
MOST_EVENTS = 5000
_FORGET_EVERY = 256


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host that the centre is responsible for."""

    spec: HostSpec
    handle: str | None
    """None: our provider did not start it and never stops it. `STARTING`: it is starting."""
    leaving: bool
    since_s: float


@dataclass(frozen=True, slots=True)
class ApplicationEntry:
    """An application and where it should run."""

    spec: ApplicationSpec
    host: str | None
    """The assigned host; None if it is not placed yet."""
    asked_host: str | None
    """The host that a user chose. The application stays there as long as that host exists."""
    wanted: bool


# Read several times per step, and rarely changed.
@lru_cache(maxsize=1 << 16)
def _host_spec(text: str) -> HostSpec:
    return from_json(HostSpec, text)


@lru_cache(maxsize=1 << 16)
def _application_spec(text: str) -> ApplicationSpec:
    return from_json(ApplicationSpec, text)


def _entries(rows: list[tuple[Any, ...]]) -> dict[str, ApplicationEntry]:
    return {row[0]: ApplicationEntry(_application_spec(row[1]), row[2], row[3], bool(row[4])) for row in rows}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in the fleet."""

    time_s: float
    event: str
    subject: str
    text: str


class Registry:
    """One file, readable by its owner only. A completed write survives a crash of the process.

    The file is in the folder that all hosts share, so it uses a rollback journal. A write-ahead log needs shared memory
    and does not work across machines.
    """

    def __init__(self, path: Path | None, clock: Clock = REAL_CLOCK) -> None:
        """Without a path, the registry is in memory."""
        self._lock = threading.Lock()
        self._clock = clock
        self._noted = 0
        self._writes = 0
        self._read: dict[str, tuple[tuple[int, int], Any]] = {}
        """Hosts and applications as last read, with the version of the file they were read from."""
        self._touched: set[str] = set()
        """Applications that were written since they were last read."""
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            self._db = sqlite3.connect(
                path or ":memory:", check_same_thread=False, isolation_level=None, timeout=10, cached_statements=64
            )
            if path is not None:
                self._db.execute("PRAGMA journal_mode=DELETE")
            self._db.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(f"{path}: the fleet's registry cannot be used ({error})") from None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write everything in one transaction. Losing a region causes hundreds of changes, but only one flush."""
        self._undo()  # SQLite refuses a transaction inside another one, so one that could not be undone is undone now
        self._do("BEGIN IMMEDIATE")
        try:
            yield
            self._do("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._undo()
            raise

    def hosts(self) -> Mapping[str, HostEntry]:
        found: Mapping[str, HostEntry] = self._cached("hosts", self._hosts)
        return found

    def _hosts(self, before: Mapping[str, HostEntry] | None) -> dict[str, HostEntry]:
        rows = self._all("SELECT name, spec, handle, leaving, since_s FROM hosts ORDER BY name")
        return {row[0]: HostEntry(_host_spec(row[1]), row[2], bool(row[3]), row[4]) for row in rows}

    def put_host(self, spec: HostSpec, handle: str | None) -> None:
        self._do(
            "INSERT OR REPLACE INTO hosts (name, spec, handle, leaving, since_s) VALUES (?, ?, ?, 0, ?)",
            (spec.name, to_json(spec), handle, self._clock.wall_s()),
        )

    def let_host_go(self, name: str) -> None:
        """Drain the host: it takes no more applications, hands over those it has, and stops."""
        self._do("UPDATE hosts SET leaving = 1 WHERE name = ?", (name,))

    def forget_host(self, name: str) -> None:
        self._do("DELETE FROM hosts WHERE name = ?", (name,))

    def applications(self) -> Mapping[str, ApplicationEntry]:
        found: Mapping[str, ApplicationEntry] = self._cached("applications", self._applications)
        return found

    def _applications(self, before: Mapping[str, ApplicationEntry] | None) -> dict[str, ApplicationEntry]:
        """All of them by name. If only this process has written since `before`, only what it has written is read."""
        touched, self._touched = self._touched, set()
        if before is None or not touched <= before.keys() or len(touched) > len(before) / 4:
            return _entries(self._all(f"{_APPLICATIONS} ORDER BY name"))
        found = dict(before)
        for name in touched:
            row = self._all(f"{_APPLICATIONS} WHERE name = ?", (name,))
            found |= _entries(row)
            if not row:
                del found[name]
        return found

    def put_application(self, spec: ApplicationSpec, host: str | None = None) -> None:
        """Add an application, or update the recipe of an existing one, which keeps its host."""
        self._touched.add(spec.name)
        self._do(
            "INSERT INTO applications (name, spec, host) VALUES (?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, wanted = 1",
            (spec.name, to_json(spec), host),
        )

    def assign(self, application: str, host: str | None) -> None:
        self._touched.add(application)
        self._do("UPDATE applications SET host = ? WHERE name = ?", (host, application))

    def ask_host(self, application: str, host: str | None) -> None:
        self._touched.add(application)
        self._do("UPDATE applications SET asked_host = ? WHERE name = ?", (host, application))

    def end_application(self, application: str) -> None:
        """Request that it stops. Its checkpoint stays."""
        self._touched.add(application)
        self._do("UPDATE applications SET wanted = 0 WHERE name = ?", (application,))

    def forget_application(self, application: str) -> None:
        self._touched.add(application)
        self._do("DELETE FROM applications WHERE name = ?", (application,))

    def fact(self, key: str, default: Any = None) -> Any:
        rows = self._all("SELECT body FROM facts WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else default

    def put_fact(self, key: str, value: Any) -> None:
        self._do("INSERT OR REPLACE INTO facts (key, body) VALUES (?, ?)", (key, json.dumps(value, allow_nan=False)))

    def next_generation(self, least: int = 0) -> int:
        """A number greater than all earlier ones, and at least `least`."""
        generation = max(int(self.fact("generation", 0)) + 1, least)
        self.put_fact("generation", generation)
        return generation

    def note(self, event: str, subject: str, text: str = "") -> None:
        """Record an event. The newest `MOST_EVENTS` are kept."""
        # Names and errors come from other hosts. SQLite refuses text with unpaired surrogates.
        words = [word.encode("utf-8", "replace").decode() for word in (event, subject, text)]
        self._do(
            "INSERT INTO events (time_s, event, subject, text) VALUES (?, ?, ?, ?)", (self._clock.wall_s(), *words)
        )
        self._noted += 1
        if self._noted % _FORGET_EVERY == 1:
            self._do("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (MOST_EVENTS,))

    def events(self, newest: int = 50) -> list[Event]:
        rows = self._all("SELECT time_s, event, subject, text FROM events ORDER BY id DESC LIMIT ?", (newest,))
        return [Event(*row) for row in reversed(rows)]

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _cached(self, what: str, read: Callable[[Any], Any]) -> Any:
        """Read again only after a write, because every step looks at thousands of applications.

        `read` gets what was last read, unless another process has written since.
        """
        version = (self._writes, int(self._all("PRAGMA data_version")[0][0]))
        known = self._read.get(what)
        if known is None or known[0] != version:
            before = known[1] if known is not None and known[0][1] == version[1] else None
            known = self._read[what] = (version, read(before))
        return known[1]

    def _undo(self) -> None:
        """End a transaction without its changes. A commit that fails, on a full disk say, leaves it open."""
        with self._lock:
            if self._db.in_transaction:
                self._read.clear()
                self._db.rollback()

    def _do(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        with self._lock:
            self._writes += not statement.startswith(_BESIDE)
            self._db.execute(statement, values)

    def _all(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()
