"""Reads any history: Parquet, Spark's event logs, files of progress reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.domain import InvalidInput
from tidegate.history.eventlog import EventLog, event_files
from tidegate.history.metrictable import MetricTable
from tidegate.history.notes import Notes


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The content of a path: a table per application, and notes on what was skipped."""

    source: str
    tables: tuple[MetricTable, ...]
    notes: Notes


def read_history(path: Path, newest: int | None = None) -> MetricHistory:
    """Read a file or a folder. The content determines the format. For Parquet, `newest` limits the number of
    samples."""
    if not path.exists():
        raise InvalidInput(
            f"{path}: no such file or folder; give a journal, a Parquet history, an event log or progress JSON lines"
        )
    notes = Notes()
    if holds_parquet(path):
        from tidegate.history.parquet import read_parquet  # only Parquet needs pyarrow

        tables = read_parquet(path, notes, newest)
        source = "parquet"
    else:
        tables, source = _tables(read_event_logs(path, notes)), "event log"
    return MetricHistory(source, tuple(table for table in tables if len(table)), notes)


def holds_parquet(path: Path) -> bool:
    """Return whether the path is a Parquet file or a folder that contains one."""
    if path.is_file():
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    return next(path.rglob("*.parquet"), None) is not None


def read_event_logs(path: Path, notes: Notes) -> list[EventLog]:
    """Read every event log below a path."""
    logs = []
    for files in event_files(path):
        before = notes.lines, notes.unreadable_lines
        log = EventLog(notes)
        for file in files:
            log.read(file)
        if notes.lines > before[0] and notes.lines - before[0] == notes.unreadable_lines - before[1]:
            notes.add(f"{files[0].name}: holds no JSON lines")
        logs.append(log)
    return logs


def _tables(logs: list[EventLog]) -> list[MetricTable]:
    tables: list[MetricTable] = []
    for log in logs:
        tables += _told_apart(log.tables(), tables)
    return tables


def _told_apart(found: list[MetricTable], known: list[MetricTable]) -> list[MetricTable]:
    """Number the applications of several logs that share a name."""
    taken = {table.application for table in known}
    renamed = []
    for table in found:
        name, number = table.application, 2
        while name in taken:
            name, number = f"{table.application} ({number})", number + 1
        taken.add(name)
        renamed.append(MetricTable(name, table.names, table.times_s, table.values, table.batch_ids))
    return renamed
