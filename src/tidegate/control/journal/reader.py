"""Reads a journal of this or an older version without loading all of it."""

from __future__ import annotations

import json
import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from typing import Any

from tidegate.control.journal.block import read_block
from tidegate.control.journal.entry import Entry, Note, RollUp
from tidegate.control.journal.schema import KNOWLEDGE, VERSION, open_to_read, read_v1, version_of
from tidegate.control.journal.steps import entry_of
from tidegate.control.journal.tail import trees_of
from tidegate.control.knowledge import Knowledge
from tidegate.domain import InvalidInput
from tidegate.domain.codec import from_tree


def read_journal(
    path: str | Path,
    since_s: float | None = None,
    until_s: float | None = None,
    *,
    observations: bool = True,
    after: int = 0,
) -> Iterator[Entry | RollUp]:
    """Everything from `since_s` until before `until_s`, oldest first: exact entries if still kept, else roll-ups.

    Decisions that acted stay as entries as long as the roll-ups of their time; past the retention period they have no
    observation. Reading without `observations` is much faster. `after` skips the entries up to that number.
    """
    start_s, end_s = -inf if since_s is None else since_s, inf if until_s is None else until_s
    path = Path(path)
    with _damage_said(path), closing(open_to_read(path)) as database:
        trees = (
            _trees(database, start_s, end_s, after, None if observations else "o")
            if version_of(database, path) == VERSION
            else ((tree, []) for tree in read_v1(database, after))
        )
        for tree, outcomes in trees:
            try:
                found = from_tree(RollUp, tree) if "applications" in tree else entry_of(tree, outcomes, observations)
            except ValueError as error:
                line = str(error).splitlines()[0]
                raise InvalidInput(
                    f"journal {path}: a step was written by another version of Tidegate ({line}); read it with that one"
                ) from None
            early = since_s is not None and found.time_s < since_s
            late = until_s is not None and found.time_s >= until_s
            if not early and not late:
                yield found


def read_entries(
    path: str | Path,
    since_s: float | None = None,
    until_s: float | None = None,
    *,
    observations: bool = True,
    after: int = 0,
) -> Iterator[Entry]:
    """The entries of `read_journal`, without roll-ups."""
    for found in read_journal(path, since_s, until_s, observations=observations, after=after):
        if isinstance(found, Entry):
            yield found


def read_notes(path: str | Path) -> list[Note]:
    """Events of the controller itself, oldest first."""
    with _damage_said(Path(path)), closing(open_to_read(Path(path))) as database:
        return [Note(*row) for row in database.execute("SELECT time_s, event, text FROM notes ORDER BY id")]


def read_knowledge(path: str | Path) -> Knowledge | None:
    """The last saved knowledge; None if there is none or another version saved it."""
    path = Path(path)
    with _damage_said(path), closing(open_to_read(path)) as database:
        if version_of(database, path) != VERSION:
            return None
        row = database.execute("SELECT body FROM blobs WHERE name = ?", (KNOWLEDGE,)).fetchone()
    return Knowledge.from_bytes(row[0]) if row else None


@contextmanager
def _damage_said(path: Path) -> Iterator[None]:
    """Report damage. Changed bytes show up in SQLite's pages, in packed bodies, or in what they unpack to."""
    try:
        yield
    except (sqlite3.Error, zlib.error, ArithmeticError, LookupError, TypeError, ValueError, EOFError) as error:
        first = next(iter(str(error).splitlines()), "")
        raise InvalidInput(
            f"journal {path}: damaged ({type(error).__name__}: {first}); "
            f"recover what is readable with: sqlite3 {path.name} .recover | sqlite3 NEW"
        ) from None


def _trees(
    database: sqlite3.Connection, start_s: float, end_s: float, after: int, leave_out: str | None
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Plain values of the blocks and then of the tail, with outcomes.

    A writer may seal rows while they are read, so each query is short. Steps already returned from the tail are
    skipped when they turn up in a block.
    """
    outcomes = RecordedOutcomes(database)
    block, given = -1, after
    while True:
        # Read blocks and tail in one transaction: a stretch sealed in between would be missed in both.
        database.execute("BEGIN")
        row = database.execute(
            "SELECT first, kind, body, acted FROM blocks WHERE first > ? AND last > ? AND end_s >= ? AND start_s < ?"
            " ORDER BY first LIMIT 1",
            (block, given, start_s, end_s),
        ).fetchone()
        rows = [] if row is not None else _tail(database, given)
        database.execute("COMMIT")
        if row is not None:
            block, kind, body, acted = row
            trees = read_block(body, leave_out)
            if kind == "rolled":
                trees = sorted(trees + read_block(acted), key=lambda tree: tree["t"] if "t" in tree else tree["time_s"])
            for tree in trees:
                if tree.get("i", given + 1) > given:
                    yield tree, outcomes.of(tree)
            continue
        if not rows:
            return
        for number, tree in trees_of(rows):
            if number > given:
                given = number
                tree = {"i": number, **tree}
                yield tree, outcomes.of(tree)


def _tail(database: sqlite3.Connection, given: int) -> list[tuple[int, int | None, bytes]]:
    """All rows of the tail if any is new, because each row is a difference from an earlier one."""
    return database.execute(
        "SELECT id, base, body FROM tail WHERE EXISTS (SELECT 1 FROM tail WHERE id > ?) ORDER BY id", (given,)
    ).fetchall()


class RecordedOutcomes:
    """Outcomes of decisions. When knowledge is lost, steps count from 1 again, and a new numbering starts."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._numberings = [row[0] for row in database.execute("SELECT first FROM numberings ORDER BY first")]
        self._any = database.execute("SELECT 1 FROM outcomes LIMIT 1").fetchone() is not None

    def of(self, tree: dict[str, Any]) -> list[dict[str, Any]]:
        """One for each application whose prediction was judged, in that order."""
        if not self._any or "d" not in tree or tree["d"] is None:
            return []
        numbering = self._numberings[bisect_right(self._numberings, tree["i"]) - 1]
        row = self._database.execute(
            "SELECT body FROM outcomes WHERE numbering = ? AND step = ?", (numbering, tree["d"]["step"])
        ).fetchone()
        found = [] if row is None else json.loads(row[0])
        return found if isinstance(found, list) else [found]
