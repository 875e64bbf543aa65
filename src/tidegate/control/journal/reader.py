"""Reads a journal, of this version or an older one, without loading all of it."""

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
    """Everything from `since_s` on and before `until_s`, oldest first: entries where exact, roll-ups where not.

    Decisions that acted are entries for good; beyond the retention period they have no observation. Without
    `observations` reading is much quicker. `after` leaves out the entries up to that number.
    """
    start_s, end_s = -inf if since_s is None else since_s, inf if until_s is None else until_s
    path = Path(path)
    with _damage_said(path), closing(open_to_read(path)) as database:
        trees = (
            _trees(database, start_s, end_s, after, None if observations else "o")
            if version_of(database, path) == VERSION
            else ((tree, None) for tree in read_v1(database, after))
        )
        for tree, outcome in trees:
            try:
                found = from_tree(RollUp, tree) if "applications" in tree else entry_of(tree, outcome, observations)
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
    """What happened to the control itself, oldest first."""
    with _damage_said(Path(path)), closing(open_to_read(Path(path))) as database:
        return [Note(*row) for row in database.execute("SELECT time_s, event, text FROM notes ORDER BY id")]


def read_knowledge(path: str | Path) -> Knowledge | None:
    """What the controller last knew; None where it never said, or in a form of another version."""
    path = Path(path)
    with _damage_said(path), closing(open_to_read(path)) as database:
        if version_of(database, path) != VERSION:
            return None
        row = database.execute("SELECT body FROM blobs WHERE name = ?", (KNOWLEDGE,)).fetchone()
    return Knowledge.from_bytes(row[0]) if row else None


@contextmanager
def _damage_said(path: Path) -> Iterator[None]:
    """Bytes that were changed show in many ways: in SQLite's pages, in packed bodies, in what they unpack to."""
    try:
        yield
    except (sqlite3.Error, zlib.error, ArithmeticError, LookupError, TypeError, ValueError, EOFError) as error:
        first = next(iter(str(error).splitlines()), "")
        raise InvalidInput(
            f"journal {path}: damaged ({type(error).__name__}: {first}); "
            f"save what can be saved with: sqlite3 {path.name} .recover | sqlite3 NEW"
        ) from None


def _trees(
    database: sqlite3.Connection, start_s: float, end_s: float, after: int, leave_out: str | None
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Plain values of blocks and then of the tail, with outcomes.

    A writer may seal what is being read, so each look is a short one: what has been given out of the tail is not
    given out again when it turns up in a block.
    """
    outcomes = Outcomes(database)
    block, given = -1, after
    while True:
        # Blocks and tail are looked at in one transaction: what is sealed in between would be in neither.
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
    """All rows of the tail where some are news: each is a difference from an earlier one."""
    return database.execute(
        "SELECT id, base, body FROM tail WHERE EXISTS (SELECT 1 FROM tail WHERE id > ?) ORDER BY id", (given,)
    ).fetchall()


class Outcomes:
    """What came of decisions. Steps are counted anew where knowledge was lost: each numbering has its own."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._numberings = [row[0] for row in database.execute("SELECT first FROM numberings ORDER BY first")]
        self._any = database.execute("SELECT 1 FROM outcomes LIMIT 1").fetchone() is not None

    def of(self, tree: dict[str, Any]) -> dict[str, Any] | None:
        if not self._any or "d" not in tree or tree["d"] is None:
            return None
        numbering = self._numberings[bisect_right(self._numberings, tree["i"]) - 1]
        row = self._database.execute(
            "SELECT body FROM outcomes WHERE numbering = ? AND step = ?", (numbering, tree["d"]["step"])
        ).fetchone()
        return None if row is None else json.loads(row[0])
