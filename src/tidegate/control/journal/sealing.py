"""Turns small rows into blocks and old blocks into roll-ups, which keeps the file small."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tidegate.control.journal.block import read_block, write_block
from tidegate.control.journal.rollup import roll_up
from tidegate.control.journal.steps import entry_of
from tidegate.control.journal.summary import TABLES, insert, summarise
from tidegate.control.journal.tail import trees_of
from tidegate.domain.codec import to_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAY_S = 86_400.0
_ROLLED_SPAN_S = 6 * 3600.0  # roll-ups over this span share a block


@dataclass(frozen=True, slots=True)
class Retention:
    """How long steps are kept in full."""

    keep_days: float = 7.0
    max_megabytes: float = 200.0


def seal(database: sqlite3.Connection, before: int, bucket: int, finished: Collection[int] = ()) -> int:
    """Turn stretches that began before entry `before` into blocks. Returns the number of blocks.

    `bucket` is still open, so only its `finished` stretches are sealed; the others may still grow.
    """
    found = database.execute(
        "SELECT DISTINCT stretch, bucket FROM tail WHERE stretch < ? ORDER BY stretch", (before,)
    ).fetchall()
    ready = [(stretch, of) for stretch, of in found if of != bucket or stretch in finished]
    groups = [[stretch for stretch, _ in some] for _, some in groupby(ready, key=itemgetter(1))]
    for stretches in groups:
        marks = ",".join("?" * len(stretches))
        rows = database.execute(
            f"SELECT id, base, body, time_s, step FROM tail WHERE stretch IN ({marks}) ORDER BY id", stretches
        ).fetchall()
        trees = [{"i": number, **tree} for number, tree in trees_of(row[:3] for row in rows)]
        times = [row[3] for row in rows]
        steps = [row[4] for row in rows if row[4] is not None]
        body, summary = write_block(trees), summarise(trees)
        with transaction(database):
            gone = database.execute(f"DELETE FROM tail WHERE stretch IN ({marks})", stretches).rowcount
            if gone != len(rows):
                raise sqlite3.OperationalError("the rows of a stretch changed while it was sealed")
            database.execute(
                "INSERT INTO blocks VALUES (?, ?, ?, ?, 'exact', ?, ?, ?, NULL)",
                (rows[0][0], rows[-1][0], min(times), max(times), len(rows), steps[-1] if steps else None, body),
            )
            insert(database, summary)
    return len(groups)


def retire(database: sqlite3.Connection, retention: Retention) -> int:
    """Roll up the oldest blocks past the limits on age or size. The newest stays exact. Returns how many.

    If the file is still too large, the oldest roll-ups are dropped, except for the newest of them.
    """
    retired = 0
    while True:
        blocks = database.execute(
            "SELECT first, end_s FROM blocks WHERE kind = 'exact' ORDER BY first LIMIT 2"
        ).fetchall()
        newest_s = database.execute("SELECT max(end_s) FROM blocks").fetchone()[0]
        too_large = used_bytes(database) > retention.max_megabytes * 1e6
        if len(blocks) > 1 and (too_large or blocks[0][1] < newest_s - retention.keep_days * _DAY_S):
            _retire_block(database, blocks[0][0])
            retired += 1
        elif not too_large or not _drop_oldest_roll_ups(database):
            return retired


def used_bytes(database: sqlite3.Connection) -> int:
    """Bytes of the file in use. Free pages are reused."""
    pages, free, size = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _retire_block(database: sqlite3.Connection, first: int) -> None:
    last, start_s, end_s, steps, last_step, body = database.execute(
        "SELECT last, start_s, end_s, steps, last_step, body FROM blocks WHERE first = ?", (first,)
    ).fetchone()
    trees = read_block(body)
    acted = [{**tree, "o": None} for tree in trees if tree["d"] and tree["d"]["actions"]]
    minutes = _minutes(trees)
    merged = database.execute(
        "SELECT first, start_s, steps, body, acted FROM blocks WHERE kind = 'rolled' AND first < ? AND start_s > ?"
        " ORDER BY first DESC LIMIT 1",
        (first, end_s - _ROLLED_SPAN_S),
    ).fetchone()
    if merged is not None:
        start_s, steps = min(start_s, merged[1]), steps + merged[2]
        minutes, acted = read_block(merged[3]) + minutes, read_block(merged[4]) + acted
    row = (merged[0] if merged else first, last, start_s, end_s, steps, last_step)
    with transaction(database):
        database.execute("DELETE FROM blocks WHERE first IN (?, ?)", (first, row[0]))
        database.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, 'rolled', ?, ?, ?, ?)",
            (*row, write_block(minutes), write_block(acted)),
        )


def _drop_oldest_roll_ups(database: sqlite3.Connection) -> bool:
    """Drop the oldest block of roll-ups, with its decisions and aggregates. False if there is only one."""
    blocks = database.execute(
        "SELECT first, last, end_s, last_step FROM blocks WHERE kind = 'rolled' ORDER BY first LIMIT 2"
    ).fetchall()
    if len(blocks) < 2:
        return False
    first, last, end_s, last_step = blocks[0]
    with transaction(database):
        database.execute("DELETE FROM blocks WHERE first = ?", (first,))
        numbering = database.execute("SELECT max(first) FROM numberings WHERE first <= ?", (last,)).fetchone()[0]
        database.execute(
            "DELETE FROM outcomes WHERE numbering < ? OR (numbering = ? AND step <= ?)",
            (numbering, numbering, last_step or 0),
        )
        for table in TABLES:
            database.execute(f"DELETE FROM {table} WHERE time_s < ?", (end_s,))
    return True


def _minutes(trees: list[Any]) -> list[Any]:
    """Roll-ups as plain values; empty if another version wrote the steps and they cannot be read."""
    try:
        return [to_tree(minute) for minute in roll_up(entry_of(tree) for tree in trees)]
    except ValueError:
        return []
