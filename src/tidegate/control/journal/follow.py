"""Follows a growing journal: each poll reads only the new steps."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from tidegate.control.journal.block import read_block
from tidegate.control.journal.tail import unpacked


class Follower:
    """New steps as plain values.

    Rows of the tail are stored as differences from earlier rows. The follower keeps the text of the newest row of
    each stretch, so a poll unpacks only the new rows.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._texts: dict[int, bytes] = {}
        self.newest = 0
        """The number of the newest step returned so far."""

    def poll(self) -> list[dict[str, Any]]:
        """Steps written since the last poll; on the first call, the whole tail."""
        if not self._any_news():
            return []
        found = list(self._sealed_meanwhile()) if self.newest else []
        rows = self._database.execute(
            "SELECT id, base, body FROM tail WHERE id > ? ORDER BY id", (self.newest,)
        ).fetchall()
        if any(base is not None and base not in self._texts and base <= self.newest for _, base, _ in rows):
            self._texts.clear()
            rows = self._database.execute("SELECT id, base, body FROM tail ORDER BY id").fetchall()
        for number, base, body in rows:
            text = unpacked(body, None if base is None else self._texts.pop(base))
            self._texts[number] = text
            if number > self.newest:
                self.newest = number
                found.append({"i": number, **json.loads(text)})
        return found

    def _any_news(self) -> bool:
        newest = self._database.execute("SELECT max(id) FROM tail").fetchone()[0]
        return newest is not None and newest > self.newest

    def _sealed_meanwhile(self) -> Iterator[dict[str, Any]]:
        """Steps that were written and sealed between two polls."""
        rows = self._database.execute(
            "SELECT body FROM blocks WHERE last > ? AND kind = 'exact' ORDER BY first", (self.newest,)
        ).fetchall()
        for (body,) in rows:
            for tree in read_block(body):
                if tree["i"] > self.newest:
                    self.newest = tree["i"]
                    yield tree
