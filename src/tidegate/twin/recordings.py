"""Reads a recorded run from a journal or an event log."""

from __future__ import annotations

from pathlib import Path

from tidegate.control.journal.reader import read_entries
from tidegate.control.journalhistory import holds_journal
from tidegate.domain import InvalidInput
from tidegate.twin.loggedrun import from_event_log
from tidegate.twin.recordedrun import RecordedQuery, Recording


def read_recording(path: Path) -> Recording:
    """Read a journal, or Spark's event log: a file, or the folder of a rolling log. The content decides."""
    if not path.exists():
        raise InvalidInput(f"{path}: no such file or folder; give a journal or a Spark event log")
    return _from_journal(path) if holds_journal(path) else from_event_log(path)


def _from_journal(path: Path) -> Recording:
    """Steps without observations (older than the journal's retention) are left out."""
    queries: dict[str, RecordedQuery] = {}
    requested: list[tuple[float, int]] = []
    registered: list[tuple[float, int]] = []
    first_s: float | None = None
    last_s: float | None = None
    slots = 1
    for entry in read_entries(path):
        seen = entry.observation
        if seen is None:
            continue
        first_s = seen.time_s if first_s is None else first_s
        last_s = seen.time_s
        if seen.pool.executors:  # an empty pool, as at the end of a job, does not know the slots of its executors
            slots = seen.pool.slots_per_executor
        for times, count in ((requested, seen.pool.requested), (registered, seen.pool.registered)):
            if not times or times[-1][1] != count:
                times.append((seen.time_s, count))
        for sample in seen.applications:
            if not sample.bounded:
                queries.setdefault(sample.name, RecordedQuery(sample.name, sample.interval_s)).take(sample)
    if first_s is None or last_s is None or last_s - first_s < 1 or not queries:
        raise InvalidInput(f"journal {path}: contains no observations of a streaming query; record a run first")
    return Recording(first_s, last_s, queries, tuple(requested), tuple(registered), slots)
