"""Several journals behind one thread: SQLite connections stay in their thread, and reads never overlap."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from tidegate.domain import InvalidInput
from tidegate.view import now, ranges
from tidegate.view.book import Book, find_journals, journal_names, journals_in_folders
from tidegate.view.panels import FleetNow, Overview

T = TypeVar("T")

_INDEX_S = 0.2  # per turn, so that readers do not wait longer
_OVERLAP_S = 0.001
_FLEET_EVERY_S = 3.0
_LOOK_AGAIN_S = 5.0
"""Folders are searched for new journals at this interval while the console is in use."""


class Library:
    """Journals by name, given as files or as folders.

    `run` puts work on the reading thread. All other methods must be called on that thread.
    """

    def __init__(self, paths: Iterable[Path], fleet: Callable[[], FleetNow] | None = None) -> None:
        self._paths = list(paths)
        self._fleet = fleet
        self._fleet_seen: FleetNow | None = None
        self._fleet_at = -inf
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-view")
        self.books: dict[str, Book] = {}
        self.steerable: str | None = None
        """The journal whose controller runs in this process."""
        self.paused: Callable[[], bool] = lambda: False
        self._polled = -inf
        self._looked = -inf
        self._folders = any(path.is_dir() for path in self._paths)

    def open(self) -> None:
        """Open all journals now, so that problems are reported at once."""
        self.run(self._open).result()

    def close(self) -> None:
        self.run(self._close).result()
        self._thread.shutdown()

    def run(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._thread.submit(work, *arguments)

    def fleet(self) -> FleetNow | None:
        """The state of the fleet, asked every few seconds at most. Callable on any thread, since hosts may be slow."""
        if self._fleet is not None and time.monotonic() - self._fleet_at > _FLEET_EVERY_S:
            self._fleet_seen, self._fleet_at = self._fleet(), time.monotonic()
        return self._fleet_seen

    # on the reading thread

    def poll(self, at_most_every_s: float = 0.2) -> None:
        """Read what is new in all journals, and index old steps for a moment."""
        if time.monotonic() - self._polled < at_most_every_s:
            return
        if self._folders and time.monotonic() - self._looked > _LOOK_AGAIN_S:
            self._open_new()
        for book in self.books.values():
            try:
                book.poll()
                if book.indexed < 1:
                    book.index(_INDEX_S)
            except sqlite3.Error:  # locked or being replaced; the next poll tries again
                continue
        self._polled = time.monotonic()

    def book(self, name: str | None) -> Book:
        """A journal by name; without a name, the first."""
        if name is None and self.books:
            return next(iter(self.books.values()))
        if name not in self.books:
            raise LookupError(f"there is no journal {name!r}; there are: {', '.join(self.books)}")
        return self.books[name]

    def application(self, book: Book, name: str | None) -> str:
        """An application by name; without a name, the first. Applications that have ended are found in the sums."""
        names = [one.application for one in now.applications_now(book)]
        if name is None:
            if not names:
                raise LookupError(f"journal {book.name} has no application yet")
            return names[0]
        if name not in names and name not in book.samples and name not in book.beliefs:
            known = book.database.execute(
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM minutes WHERE application = :name)"
                " OR EXISTS (SELECT 1 FROM old_minutes WHERE application = :name)",
                {"name": name},
            ).fetchone()
            if known is None:
                raise LookupError(f"journal {book.name} has no application {name!r}; it has: {', '.join(names)}")
        return name

    def overview(self, book: Book) -> Overview:
        own = book.name == self.steerable
        return now.overview(book, steerable=own, paused=own and self.paused())

    def delta(self, book: Book, application: str, since_s: float) -> dict[str, Any]:
        """The overview, and the columns and moments after `since_s`."""
        span = book.span_s
        end_s = span[1] if span else since_s
        start_s = max(since_s + _OVERLAP_S, end_s - 600.0)
        new = end_s >= start_s
        found = ranges.series(book, application, start_s, end_s, 600) if new else None
        return {
            "overview": asdict(self.overview(book)),
            "series": None if found is None else asdict(found),
            "moments": [asdict(one) for one in ranges.timeline(book, start_s, end_s)] if new else [],
        }

    def _open(self) -> None:
        # A new fleet has no journal yet.
        found = journals_in_folders(self._paths) if self._fleet is not None else find_journals(self._paths)
        for path, name in journal_names(found, taken=self.books).items():
            if any(book.path == path for book in self.books.values()):
                continue
            try:
                self.books[name] = Book(path, name)
            except sqlite3.Error as error:
                raise InvalidInput(f"journal {path}: cannot be read ({error})") from None
        self._looked = time.monotonic()

    def _open_new(self) -> None:
        """Open journals that have appeared in a folder, because hosts of a fleet come and go."""
        self._looked = time.monotonic()
        known = {book.path for book in self.books.values()}
        new = [path for path in journals_in_folders(self._paths) if path not in known]
        for path, name in journal_names(new, taken=self.books).items():
            with suppress(InvalidInput, sqlite3.Error):  # not ready yet: the next look may find it so
                self.books[name] = Book(path, name)

    def _close(self) -> None:
        for book in self.books.values():
            book.close()
        self.books.clear()
