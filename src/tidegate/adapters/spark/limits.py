"""Live limits on the intake of any processing-time query: the Python side of `Limiter.java`.

A limit is set inside the driver, combined with the user's own, and takes effect with the next batch. It is under a
lease: if it is not renewed for `LEASE_S`, the user's own limits are restored automatically.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from tidegate.adapters.spark.janino import new_inside
from tidegate.adapters.spark.watcher import LimitState, Watcher
from tidegate.domain.capability import Capability
from tidegate.plan.admission import FIRST_ROWS

LEASE_S = 30.0
"""Longer than a step that hangs for a while, but short enough for a job that has lost its controller."""
_UNBOUNDED = -1
_FILE_ROWS = 1000.0
"""Assumed rows per file until one has been read."""


class SourceLimits:
    """All limits of one Spark context."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        helpers = (new_inside(gateway, name) for name in ("Watermarks", "Replanning"))
        self._java = new_inside(gateway, "Limiter", spark._jsparkSession.sharedState(), *helpers)
        self._lock = threading.Lock()
        self._pauses: dict[str, set[str]] = {}
        self._rows_per_file: dict[str, float] = {}
        self._asked: dict[str, int | None] = {}
        self._intervals_s: dict[str, float] = {}

    def connect(self, watcher: Watcher) -> None:
        """Report the limits in force with every look, and hear of queries that start."""
        watcher.include(self._java)
        watcher.when_starting(self._java)

    def renew(self) -> None:
        """Keep everything that was requested in force for another lease."""
        self._java.renew(round(LEASE_S * 1000))

    def bound_first_batches(self, but: Iterable[str] = ()) -> None:
        """From now on, limit every starting query except these before its first batch is planned."""
        for name in but:
            self._java.limit(name, _UNBOUNDED, _FILE_ROWS)
        self._java.first(FIRST_ROWS)
        self.renew()

    def limit(self, name: str, rows: int | None) -> bool:
        """At most this many rows per batch, or None for the user's own limit. Files count by their usual size.

        False if this was already requested.
        """
        if self._asked.get(name, ...) == rows:
            return False
        self._asked[name] = rows
        self._ask(name)
        return True

    def _ask(self, name: str) -> None:
        rows = self._asked[name]
        self._java.limit(name, _UNBOUNDED if rows is None else rows, self._rows_per_file.get(name, _FILE_ROWS))

    def asked(self, name: str) -> bool:
        """Was anything requested from a query of this name, whether or not it runs now?"""
        return name in self._asked or name in self._intervals_s

    def interval(self, name: str, interval_s: float) -> bool:
        """Trigger at this interval, from the next trigger on. False if this was already requested."""
        if self._intervals_s.get(name) == interval_s:
            return False
        self._intervals_s[name] = interval_s
        self._java.interval(name, round(interval_s * 1000))
        return True

    def pause(self, name: str, by: str, most_s: float) -> None:
        """Start no further batch with rows until everyone who paused it resumes it, or until the time is over."""
        with self._lock:
            self._pauses.setdefault(name, set()).add(by)
            self.renew()
            self._java.pause(name, round(most_s * 1000))

    def resume(self, name: str, by: str) -> None:
        with self._lock:
            pauses = self._pauses.get(name, set())
            if by in pauses:
                pauses.discard(by)
                if not pauses:
                    self._java.resume(name)

    def quiet(self, name: str, wait_s: float = 0.5) -> bool:
        """Are all planned batches committed? This stays true while the source is paused."""
        return bool(self._java.quiet(name, round(wait_s * 1000)))

    def learn_files(self, name: str, run_id: str, offsets: tuple[Any, Any], rows: int) -> None:
        """Learn the rows per file from the files of a batch. The limit is updated when this changes."""
        before, after = (offset.get("logOffset") if isinstance(offset, dict) else None for offset in offsets)
        if not isinstance(after, int) or rows <= 0:
            return
        files = int(self._java.files(run_id, before if isinstance(before, int) else -1, after))
        if files > 0:
            known = self._rows_per_file.get(name)
            self._rows_per_file[name] = rows / files if known is None else known + 0.3 * (rows / files - known)
            if self._asked.get(name) is not None:
                self._ask(name)

    def rows_in_force(self, name: str, state: LimitState) -> int | None:
        """The limit of a run in rows. Files count by their usual size. None if one of its sources has no limit."""
        files = None if state.files is None else max(1, round(state.files * self._rows_per_file.get(name, _FILE_ROWS)))
        if state.kind == "mixed":
            return None if state.rows is None or files is None else state.rows + files
        return files if state.rows is None else state.rows

    def sources(self, run_id: str) -> list[Any]:
        """The driver's own objects for the sources of a run."""
        return list(self._java.sources(run_id))

    def forget(self, name: str) -> None:
        """The query has ended for good: drop all requests for it."""
        self._asked.pop(name, None)
        self._intervals_s.pop(name, None)
        self._pauses.pop(name, None)
        self._java.forget(name)

    def release(self) -> None:
        """Restore the user's own limits and intervals."""
        self._asked.clear()
        self._intervals_s.clear()
        self._pauses.clear()
        self._java.release()


def admission_of(name: str, state: LimitState) -> Capability:
    """Whether and how the admission of a query can be limited."""
    knob = f"admission of {name}"
    if state.limitable:
        return Capability(knob, True, f"live, in {state.kind} per batch, within the limits of its own sources")
    return Capability(knob, False, state.objection or "its sources are not known yet")
