"""Reads a journal as a history: every observation in it is a record of metrics."""

from __future__ import annotations

from pathlib import Path

from tidegate.control.journal import read_entries
from tidegate.history.batchrecords import ObservationFlattener
from tidegate.history.metrictable import MetricRecord, MetricTable
from tidegate.history.notes import Notes
from tidegate.history.read import MetricHistory

_SQLITE = b"SQLite format 3\0"


def holds_journal(path: Path) -> bool:
    """Do the first bytes say that this is a journal file?"""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def journal_history(path: Path) -> MetricHistory:
    """The batches of every application that the controller observed."""
    flattener, records = ObservationFlattener(), dict[str, list[MetricRecord]]()
    for entry in read_entries(path):
        if entry.observation is not None:
            for application, record in flattener.records(entry.observation):
                records.setdefault(application, []).append(record)
    tables = (MetricTable.from_records(application, found) for application, found in records.items())
    return MetricHistory("journal", tuple(tables), Notes())
