"""Reads Parquet histories: Tidegate's own layout, or any file with a time column and numbers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.history.metrictable import Floats, MetricTable
from tidegate.history.notes import Notes

TIME_COLUMNS = ("time_s", "timestamp", "time")
_LABELS = ("application", "day", "batch_id")


def read_parquet(path: Path, notes: Notes, newest: int | None = None) -> list[MetricTable]:
    """Return one table per application. Files that cannot be read or have no time column are skipped with a note.

    Parts are read newest first. With `newest`, reading an application stops once it has that many samples.
    """
    by_application: dict[str, list[pa.Table]] = {}
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"), reverse=True)
    for file in files:
        known = by_application.get(_partition_of(file) or path.stem, [])
        enough = newest is not None and sum(part.num_rows for part in known) >= newest
        if enough or file.name.startswith("."):
            continue
        try:
            found = pq.ParquetFile(file).read()
        except (OSError, pa.ArrowException) as error:
            notes.add(f"{file.name}: not readable as Parquet, skipped ({type(error).__name__})")
            continue
        application = _partition_of(file) or path.stem
        for name, part in _by_application(found, application):
            if time_column(part.column_names) is None:
                notes.add(f"{file.name}: no time column ({', '.join(TIME_COLUMNS)}), skipped")
                continue
            by_application.setdefault(name, []).append(part)
    return [_table(name, parts) for name, parts in sorted(by_application.items())]


def time_column(names: list[str]) -> str | None:
    """Return the column with the time."""
    return next((name for name in TIME_COLUMNS if name in names), None)


def _by_application(found: pa.Table, default: str) -> list[tuple[str, pa.Table]]:
    if "application" not in found.column_names:
        return [(default, found)]
    names = pc.cast(found["application"], pa.string())
    return [(str(name), found.filter(pc.equal(names, name))) for name in names.unique().to_pylist() if name is not None]


def _partition_of(file: Path) -> str | None:
    parts = [part.removeprefix("application=") for part in file.parts if part.startswith("application=")]
    return unquote(parts[-1]) if parts else None


def _table(application: str, parts: list[pa.Table]) -> MetricTable:
    """Combine all parts under one set of columns, sorted by time."""
    names = sorted({name for part in parts for name in _metrics(part)})
    times_s = np.concatenate([_seconds(part[time_column(part.column_names)]) for part in parts])
    batch_ids = np.concatenate([_numbers(part, "batch_id") for part in parts])
    values = np.concatenate([np.column_stack([_numbers(part, name) for name in names]) for part in parts])
    values[np.isinf(values)] = np.nan
    known = np.isfinite(times_s)
    order = np.flatnonzero(known)[np.lexsort((batch_ids[known], times_s[known]))]
    ids = np.where(np.isfinite(batch_ids), batch_ids, -1).astype(np.int64)
    return MetricTable(application, tuple(names), times_s[order], values[order], ids[order])


def _metrics(part: pa.Table) -> list[str]:
    time = time_column(part.column_names)
    return [
        field.name
        for field in part.schema
        if field.name not in (time, *_LABELS)
        and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type))
    ]


def _numbers(part: pa.Table, name: str) -> Floats:
    if name not in part.column_names:
        return np.full(part.num_rows, np.nan)
    column = part[name]
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _seconds(column: pa.ChunkedArray) -> Floats:
    if pa.types.is_timestamp(column.type):
        column = pc.divide(pc.cast(pc.cast(column, pa.timestamp("us")), pa.int64()), 1e6)
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
