"""One journal as the views read it: sums per minute for long ranges, single steps for short ones.

Everything uses one read-only connection. The journal holds the sums of sealed steps (see `journal.summary`). Newer
steps, and old ones that are viewed in detail, are summed up in temporary tables of the same shape, so one query reads
both.
"""

from __future__ import annotations

import json
import sqlite3
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Container
from math import inf
from pathlib import Path
from typing import Any

from tidegate.control.journal.block import read_block
from tidegate.control.journal.follow import Follower
from tidegate.control.journal.reader import RecordedOutcomes
from tidegate.control.journal.schema import KNOWLEDGE, VERSION, open_to_read, read_v1, version_of
from tidegate.control.journal.summary import COVERED, TABLES, Summary, create, insert, summarise
from tidegate.control.knowledge import Knowledge
from tidegate.domain import InvalidInput
from tidegate.domain.policy import Policy

FINE_RANGE_S = 3600.0
"""Ranges up to this length are shown step by step."""
_MOST_FINE_BLOCKS = 24
_MOST_LIVE_S = 2 * 3600.0
_KNOWLEDGE_EVERY_S = 5.0
_USUAL_STEMS = {"tidegate", "journal"}

LIVE, OLD = "live_", "old_"
"""Prefixes of the temporary tables: single steps, and minutes of blocks that were sealed without sums."""


class Book:
    """Follows a journal. Use it from one thread only."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = name or path.stem
        self.database = open_to_read(path)
        self.database.isolation_level = None
        self._fine: dict[int, tuple[float, float]] = {}
        self._read_at = -1e9
        self._knowledge: Knowledge | None = None
        self._policy: Policy | None = None
        self.newest: dict[str, Any] | None = None
        """The newest step, as plain values."""
        self.samples: dict[str, dict[str, Any]] = {}
        """The newest batch of every application."""
        self.beliefs: dict[str, dict[str, Any]] = {}
        """The newest assessment of every application."""
        self.predicted: dict[str, float] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of decisions by action and code of the first reason."""
        self._waiting: list[int] = []
        self._blocks = 0
        self._prepare()
        self._follower = Follower(self.database)
        self.poll()

    def close(self) -> None:
        self.database.close()

    # reading what is new

    def poll(self) -> Summary:
        """Read new steps and return them step by step."""
        if self._version != VERSION:
            return Summary()
        trees = self._follower.poll()
        if not trees and self.newest is None:
            trees = self._last_block()
        if not trees:
            return Summary()
        summary = summarise(trees, grain_s=0.0, before_s=self.newest["t"] if self.newest else None)
        self._take(trees, summary)
        return summary

    def index(self, limit_s: float) -> float:
        """Sum up blocks without sums, newest first, for about `limit_s`. Returns the share that is done."""
        until_s = time.monotonic() + limit_s
        while self._waiting and time.monotonic() < until_s:
            first = self._waiting.pop()
            row = self.database.execute(
                "SELECT first, last, kind, body, acted FROM blocks WHERE first = ?", (first,)
            ).fetchone()
            if row is not None:
                summary = _of_block(*row)
                self._count(summary)
                insert(self.database, summary, OLD)
        return 1.0 - len(self._waiting) / self._blocks if self._blocks else 1.0

    @property
    def indexed(self) -> float:
        return 1.0 - len(self._waiting) / self._blocks if self._blocks else 1.0

    # queries

    @property
    def span_s(self) -> tuple[float, float] | None:
        """From the first to the last step."""
        row = self.database.execute(
            f"SELECT min(a), max(b) FROM (SELECT min(time_s) a, max(time_s) b FROM {LIVE}minutes_pool"
            f" UNION ALL SELECT min(time_s), max(time_s) FROM {OLD}minutes_pool"
            f" UNION ALL SELECT min(start_s), max(end_s) FROM {self._table('blocks')}"
            f" UNION ALL SELECT min(time_s), max(time_s) FROM {self._table('tail')})"
        ).fetchone()
        return None if row[0] is None else (row[0], row[1])

    @property
    def steps(self) -> int:
        row = self.database.execute(
            f"SELECT (SELECT coalesce(sum(steps), 0) FROM {self._table('blocks')})"
            f" + (SELECT count(*) FROM {self._table('tail')})"
        ).fetchone()
        return int(row[0])

    def source(self, table: str, start_s: float, end_s: float) -> str:
        """A subquery with the rows of `table`: single steps for short ranges, else minutes."""
        if end_s - start_s <= FINE_RANGE_S:
            self._refine(start_s, end_s)
            return f"{LIVE}{table}"
        columns = ", ".join(TABLES[table])
        sealed = self.database.execute(
            f"SELECT coalesce(max(b.end_s), -1e18) FROM {self._table('blocks')} b"
        ).fetchone()[0]
        return (
            f"(SELECT {columns} FROM {table} UNION ALL SELECT {columns} FROM {OLD}{table}"
            f" UNION ALL SELECT {columns} FROM {LIVE}{table} WHERE time_s > {sealed!r})"
        )

    def policy(self) -> Policy | None:
        """The policy in force, if the journal contains it."""
        self._read_blobs()
        return self._policy

    def knowledge(self) -> Knowledge | None:
        self._read_blobs()
        return self._knowledge

    def notes(self, most: int) -> list[tuple[float, str, str]]:
        """The newest notes, oldest first."""
        rows = self.database.execute("SELECT time_s, event, text FROM notes ORDER BY id DESC LIMIT ?", (most,))
        return list(reversed(rows.fetchall()))

    def step(self, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """One step as plain values, and its outcomes."""
        if self._version != VERSION:
            tree = next((one for one in read_v1(self.database, number - 1)), None)
            return None if tree is None or tree["i"] != number else (tree, [])
        if self.newest is not None and self.newest["i"] == number:
            return self.newest, []
        row = self.database.execute(
            "SELECT kind, body, acted FROM blocks WHERE first <= ? AND last >= ?", (number, number)
        ).fetchone()
        if row is not None:
            trees = read_block(row[1], leave_out="o") if row[0] == "exact" else read_block(row[2])
        else:
            trees = Follower(self.database).poll()
        tree = next((one for one in trees if one.get("i") == number), None)
        return None if tree is None else (tree, RecordedOutcomes(self.database).of(tree))

    # internals

    def _table(self, name: str) -> str:
        """The table, or an empty one if the journal has the first format and lacks it."""
        if self._version == VERSION:
            return name
        return f"(SELECT 0 first, 0 last, NULL start_s, NULL end_s, 0 steps, NULL time_s WHERE 0) AS {name}"

    def _prepare(self) -> None:
        database = self.database
        self._version = version_of(database, self.path)
        for prefix in (LIVE, OLD):
            create(database, "temp", prefix)
        there = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {*TABLES, COVERED} <= there:  # written before sums existed, and not since
            create(database, "temp")
        if self._version != VERSION:
            trees = list(read_v1(database))
            insert(database, summarise(trees), OLD)
            insert(database, summarise(trees[-1200:], 0.0), LIVE)
            self._take(trees[-1:], Summary())
            return
        covered = sorted(database.execute(f"SELECT first, last FROM {COVERED}"))
        blocks = database.execute("SELECT first, last FROM blocks ORDER BY first").fetchall()
        self._waiting = [first for first, last in blocks if not (_within(first, covered) and _within(last, covered))]
        self._blocks = len(blocks)
        for action, code, count in database.execute(
            "SELECT CASE kind WHEN 'held' THEN 'hold' ELSE 'recommend' END, code, sum(steps) FROM moments"
            " WHERE kind <> 'acted' GROUP BY 1, 2 UNION ALL"
            " SELECT json_extract(one.value, '$.kind'), code, count(*)"
            " FROM moments, json_each(body, '$.actions') AS one WHERE kind = 'acted' GROUP BY 1, 2"
        ):
            self.counts[action, code] += count

    def _last_block(self) -> list[dict[str, Any]]:
        """The newest steps of a journal whose tail is empty."""
        row = self.database.execute(
            "SELECT body FROM blocks WHERE kind = 'exact' ORDER BY first DESC LIMIT 1"
        ).fetchone()
        trees = read_block(row[0]) if row else []
        if trees:
            self._remember(trees)
            self._follower.newest = trees[-1]["i"]
        return []

    def _take(self, trees: list[dict[str, Any]], summary: Summary) -> None:
        self._remember(trees)
        self._count(summary)
        self._drop_old(summary)
        insert(self.database, summary, LIVE)

    def _remember(self, trees: list[dict[str, Any]]) -> None:
        for tree in trees:
            if tree["d"] is not None:
                self.predicted |= {one["application"]: one["p99_s"] for one in tree["d"].get("predictions", ())}
                self.beliefs |= {one["application"]: one for one in tree["d"]["assessments"]}
            for sample in (tree["o"] or {}).get("applications", ()):
                if sample["batches"]:
                    known = self.samples.get(sample["name"], {})
                    latest = sample["batches"][-1]
                    self.samples[sample["name"]] = known | {k: v for k, v in latest.items() if v is not None}
        if trees:
            self.newest = trees[-1]

    def _count(self, summary: Summary) -> None:
        for row in summary.rows["moments"]:
            kind, steps, code, body = row[4], row[3], row[7], row[8]
            if kind == "held":
                self.counts["hold", code] += steps
            elif kind == "acted":
                for action in json.loads(body)["actions"]:
                    self.counts[action["kind"], code] += 1
            else:
                self.counts["recommend", code] += steps

    def _refine(self, start_s: float, end_s: float) -> None:
        """Load every step of the range into the live tables."""
        if self._version != VERSION:
            return
        blocks = self.database.execute(
            "SELECT first, start_s, end_s, kind, last, acted FROM blocks WHERE end_s >= ? AND start_s <= ?",
            (start_s, end_s),
        ).fetchall()
        missing = [block for block in blocks if block[0] not in self._fine]
        if not missing:
            return
        if len(self._fine) + len(missing) > _MOST_FINE_BLOCKS:
            for first, (from_s, to_s) in list(self._fine.items()):
                if to_s < start_s or from_s > end_s:
                    self._delete(LIVE, from_s, to_s)
                    del self._fine[first]
        for first, from_s, to_s, kind, last, acted in missing:
            body = self.database.execute("SELECT body FROM blocks WHERE first = ?", (first,)).fetchone()[0]
            self._delete(LIVE, from_s, to_s)
            insert(self.database, _of_block(first, last, kind, body, acted, grain_s=0.0), LIVE)
            self._fine[first] = from_s, to_s

    def _drop_old(self, summary: Summary) -> None:
        """Keep hours in the live tables, not weeks."""
        rows = summary.rows["minutes_pool"]
        newest = max((first for first in self._fine), default=0)
        if rows and summary.last - newest > 600 and not summary.last % 600:
            self._delete(LIVE, -1e18, rows[-1][0] - _MOST_LIVE_S)
            self._fine.clear()

    def _delete(self, prefix: str, start_s: float, end_s: float) -> None:
        for table in TABLES:
            self.database.execute(f"DELETE FROM {prefix}{table} WHERE time_s BETWEEN ? AND ?", (start_s, end_s))

    def _read_blobs(self) -> None:
        if self._version != VERSION or time.monotonic() - self._read_at < _KNOWLEDGE_EVERY_S:
            return
        self._read_at = time.monotonic()
        bodies = dict(self.database.execute("SELECT name, body FROM blobs WHERE name IN (?, 'policy')", (KNOWLEDGE,)))
        if KNOWLEDGE in bodies:
            self._knowledge = Knowledge.from_bytes(bodies[KNOWLEDGE])
        if "policy" in bodies:
            try:
                self._policy = Policy.model_validate_json(bodies["policy"])
            except ValueError:  # saved by another version
                self._policy = None


def _within(number: int, ranges: list[tuple[int, int]]) -> bool:
    """
    >>> [_within(number, [(1, 5), (9, 12)]) for number in (5, 6, 9)]
    [True, False, True]
    """
    place = bisect_right(ranges, (number, inf)) - 1
    return place >= 0 and number <= ranges[place][1]


def _of_block(first: int, last: int, kind: str, body: bytes, acted: bytes | None, grain_s: float = 60.0) -> Summary:
    """The sums of a block that has none stored."""
    if kind == "exact":
        return summarise(read_block(body), grain_s)
    summary = summarise(read_block(acted or b""), grain_s)
    summary.first, summary.last = first, last
    for minute in read_block(body):
        pool = (minute["executors_requested"], minute["executors_requested"], minute["executors_registered"])
        summary.rows["minutes_pool"].append((minute["time_s"], minute["steps"], 60.0, *pool, None, 0, 0))
        for one in minute["applications"]:
            found = {
                "time_s": minute["time_s"],
                "application": one["application"],
                "steps": minute["steps"],
                "rows": one["rows"],
                "latency_rows": one["rows"],
                "p50_s": one["latency_p50_s"],
                "p99_s": one["latency_p99_s"],
                "arrival": one["arrival_rows_per_s"],
                "backlog_rows": one["backlog_rows"],
                "busy_s": one["slot_s"],
            }
            summary.rows["minutes"].append(tuple(found.get(column) for column in TABLES["minutes"]))
    return summary


def find_journals(paths: list[Path]) -> list[Path]:
    """The given journals, and all journals in the given folders.

    Other databases in a folder are skipped. A folder without any journal is an error.
    """
    found: list[Path] = []
    for path in paths:
        inside = journals_in_folders([path]) if path.is_dir() else [path]
        if not inside:
            raise InvalidInput(
                f"{path}: contains no journal; a job under Tidegate writes one (journal.path in the policy)"
            )
        found += inside
    return list(dict.fromkeys(found))


def journals_in_folders(paths: list[Path]) -> list[Path]:
    """All journals inside those paths that are folders."""
    return [one for path in paths if path.is_dir() for one in sorted(path.rglob("*.db")) if _is_journal(one)]


def journal_names(paths: list[Path], taken: Container[str] = ()) -> dict[Path, str]:
    """A name for each: that of the file, or of its folder if the file has the usual name and is alone there.

    >>> list(journal_names([Path("out/east/tidegate.db"), Path("out/west/tidegate.db"), Path("words.db")]).values())
    ['east', 'west', 'words']
    """
    found: dict[Path, str] = {}
    folders = Counter(path.resolve().parent for path in paths)
    for path in paths:
        folder = path.resolve().parent
        name = folder.name if path.stem in _USUAL_STEMS and folders[folder] == 1 else path.stem
        own, number = name, 1
        while own in found.values() or own in taken:
            number += 1
            own = f"{name}-{number}"
        found[path] = own
    return found


def _is_journal(path: Path) -> bool:
    try:
        open_to_read(path).close()
    except (InvalidInput, sqlite3.Error):
        return False
    return True
