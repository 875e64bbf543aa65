"""Reads a series from a CSV file, and derives likely seasons from its timestamps."""

from __future__ import annotations

import csv
import statistics
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tidegate.domain import InvalidInput
from tidegate.domain.python310 import iso_time
from tidegate.evaluate.forecast.rows import Floats

_DAY_S = 86_400.0
_TIMED_ROWS = 30  # the first rows give the sampling period: later rows must not change earlier forecasts


@dataclass(frozen=True, slots=True)
class CsvSeries:
    """One column of a file. An empty cell is a missing sample (NaN)."""

    values: Floats
    seasons: tuple[int, ...]
    """A day and a week in rows, if the file has timestamps; otherwise none."""


def read_series(path: Path, column: str) -> CsvSeries:
    """Read `column`. Unusable values are refused with their row, counted from 0 after the header."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            rows = [row for row in reader if row]
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path}: not a CSV file ({error})") from None
    if column not in header:
        raise InvalidInput(f"{path}: no column {column!r}; it has {', '.join(header) or 'none'}")
    at = header.index(column)
    values = np.array([_number(path, column, number, row, at) for number, row in enumerate(rows)], dtype=np.float64)
    return CsvSeries(values, _calendar_seasons([row for row in rows[:_TIMED_ROWS] if len(row) == len(header)], at))


def _number(path: Path, column: str, number: int, row: list[str], at: int) -> float:
    cell = row[at].strip() if at < len(row) else ""
    if not cell:
        return float("nan")
    try:
        value = float(cell)
    except ValueError:
        raise InvalidInput(f"{path}: {column} in row {number} is {cell!r}, not a number") from None
    if not np.isfinite(value):
        raise InvalidInput(f"{path}: {column} in row {number} is {cell!r}; leave a missing cell empty") from None
    return value


def _calendar_seasons(rows: list[list[str]], value_at: int) -> tuple[int, ...]:
    """A day and a week, from the first other column with dates and times in ISO format.

    >>> _calendar_seasons([["2014-07-01 00:00:00", "3"], ["2014-07-01 00:30:00", "4"], ["2014-07-01 01:00:00", "4"]], 1)
    (48, 336)
    """
    for at in range(len(rows[0]) if rows else 0):
        if at == value_at:
            continue
        try:
            times = [iso_time(row[at].strip()) for row in rows]
            gaps = [(after - before).total_seconds() for before, after in pairwise(times)]
        except (ValueError, TypeError):
            continue
        period_s = statistics.median(gaps) if gaps else 0.0
        if period_s > 0:
            days = (round(_DAY_S / period_s), round(7 * _DAY_S / period_s))
            return tuple(lag for lag in days if lag > 1)
    return ()
