"""Live limits on what any processing-time query takes in: the Python side of `Limiter.java`.

A limit is set inside the driver, composed with the user's own, and in force from the next batch on. It is under a lease
there: when nobody renews it for `LEASE_S`, the user's own limits come back by themselves.
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
"""Longer than a step that hangs for a while, short enough for a job whose controller is gone."""
_UNBOUNDED = -1
_FILE_ROWS = 1000.0
"""What a file is taken to hold until one has been read."""


class SourceLimits:
    """All limits of one Spark context."""

    def __init__(self, spark: SparkSession, watcher: Watcher) -> None:
        gateway: Any = spark.sparkContext._gateway
        watermarks = new_inside(gateway, "Watermarks")
        self._java = new_inside(gateway, "Limiter", spark._jsparkSession.sharedState(), watermarks)
        self._lock = threading.Lock()
        self._pauses: dict[str, set[str]] = {}
        self._rows_per_file: dict[str, float] = {}
        self._asked: dict[str, int | None] = {}
        self._intervals_s: dict[str, float] = {}
        watcher.include(self._java)
        watcher.when_starting(self._java)

    def renew(self) -> None:
        """The controller lives: everything that was asked for stays in force for another lease."""
        self._java.renew(round(LEASE_S * 1000))

    def bound_first_batches(self, but: Iterable[str] = ()) -> None:
        """From now on every query that starts, but those named, is bounded before its first batch is planned."""
        for name in but:
            self._java.limit(name, _UNBOUNDED, _FILE_ROWS)
        self._java.first(FIRST_ROWS)
        self.renew()

    def limit(self, name: str, rows: int | None) -> bool:
        """At most this many rows a batch, or None for the user's own limit; files are counted by their usual size.

        False where that was asked for already.
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
        """Was anything asked of a query of this name, whether or not it runs now?"""
        return name in self._asked or name in self._intervals_s

    def interval(self, name: str, interval_s: float) -> bool:
        """Trigger this often, from the next trigger on; False where that was asked for already."""
        if self._intervals_s.get(name) == interval_s:
            return False
        self._intervals_s[name] = interval_s
        self._java.interval(name, round(interval_s * 1000))
        return True

    def pause(self, name: str, by: str, most_s: float) -> None:
        """Let no further batch with rows begin until all who paused it resume it, or until the time is over."""
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
        """Is every batch that was planned committed? With a paused source it stays so."""
        return bool(self._java.quiet(name, round(wait_s * 1000)))

    def learn_files(self, name: str, run_id: str, offsets: tuple[Any, Any], rows: int) -> None:
        """How many rows a file holds, from the files that a batch has taken; the limit follows when that changes."""
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
        """The limit of a run in rows; files are counted by their usual size."""
        if state.rows is not None:
            return state.rows
        return None if state.files is None else max(1, round(state.files * self._rows_per_file.get(name, _FILE_ROWS)))

    def sources(self, run_id: str) -> list[Any]:
        """The driver's own objects for the sources of a run."""
        return list(self._java.sources(run_id))

    def forget(self, name: str) -> None:
        """The query has ended for good: nothing is asked of it any more."""
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
    """Whether the admission of a query can be limited, and how."""
    knob = f"admission of {name}"
    if state.kind:
        return Capability(knob, True, f"live, in {state.kind} per batch, within the limits of its own sources")
    return Capability(knob, False, state.refusal or "its sources are not known yet")
