"""Reads a recorded load from CSV. Gaps, negative values and unsorted rows are refused, because they would distort the
load."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from tidegate.domain.errors import InvalidInput
from tidegate.domain.python310 import UTC, iso_time

GapRule = Literal["error", "hold", "zero"]
_GAP_FACTOR = 1.5  # a distance of more than this many usual steps is a gap


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A CSV file and the part of it that counts: columns, first row, and how many rows (None: all)."""

    path: str
    column: str
    time_column: str | None
    first_row: int
    rows: int | None


@dataclass(frozen=True)
class RecordedLoad:
    """Values and their times in seconds since the first; `step_s` is the usual distance."""

    times_s: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]
    step_s: float

    @property
    def duration_s(self) -> float:
        return float(self.times_s[-1]) + self.step_s


@lru_cache(maxsize=16)
def read_trace(file: TraceFile, step_s: float, gaps: GapRule) -> RecordedLoad:
    """Read the trace as arrays. Line numbers in errors are those of the file (the header is line 1)."""
    path, column, time_column, first_row = file.path, file.column, file.time_column, file.first_row
    file_rows = _file_rows(path, [column] if time_column is None else [column, time_column])
    chosen = file_rows[first_row : None if file.rows is None else first_row + file.rows]
    if not chosen:
        raise InvalidInput(f"trace {path}: no rows from row {first_row} on; the file has {len(file_rows)}")
    lines = [number for number, _ in chosen]
    values = np.array([_number(path, line, column, row[column]) for line, row in chosen])
    for line, value in zip(lines, values, strict=True):
        if not value >= 0:
            raise InvalidInput(f"trace {path}, line {line}: {column} is {value:g}; a load must be at least 0")
    if time_column is None:
        return RecordedLoad(np.arange(len(values), dtype=np.float64) * step_s, values, step_s)
    stamps = np.array([_seconds(path, line, time_column, row[time_column]) for line, row in chosen])
    steps = np.diff(stamps)
    disorder = np.flatnonzero(steps <= 0)
    if len(disorder):
        raise InvalidInput(
            f"trace {path}, line {lines[disorder[0] + 1]}: {time_column} does not increase; sort the file by it"
        )
    usual_s = float(np.median(steps)) if len(steps) else step_s
    return _without_gaps(path, lines, stamps - stamps[0], values, usual_s, gaps)


def _without_gaps(
    path: str,
    lines: list[int],
    times_s: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    usual_s: float,
    gaps: GapRule,
) -> RecordedLoad:
    wide = np.flatnonzero(np.diff(times_s) > _GAP_FACTOR * usual_s)
    if len(wide) and gaps == "error":
        width_s = float(np.diff(times_s)[wide[0]])
        raise InvalidInput(
            f"trace {path}, line {lines[wide[0]]}: a gap of {width_s:g} s follows (usual step {usual_s:g} s); "
            "fill the gap, or set gaps: hold or gaps: zero"
        )
    if len(wide) and gaps == "zero":
        times_s = np.insert(times_s, wide + 1, times_s[wide] + usual_s)
        values = np.insert(values, wide + 1, 0.0)
    return RecordedLoad(times_s, values, usual_s)


def _file_rows(path: str, columns: list[str]) -> list[tuple[int, dict[str, str]]]:
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            for column in columns:
                if column not in header:
                    raise InvalidInput(f"trace {path}: no column {column!r}; it has {', '.join(header)}")
            return [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"trace {path}: cannot be read ({error})") from None


def _number(path: str, line: int, column: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidInput(f"trace {path}, line {line}: {column} is {text!r}, not a number") from None


def _seconds(path: str, line: int, column: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        pass
    try:
        stamp = iso_time((text or "").strip())
    except ValueError:
        raise InvalidInput(f"trace {path}, line {line}: {column} is {text!r}, neither ISO time nor seconds") from None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
