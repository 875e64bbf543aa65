"""Recorded loads from CSV files: a count per row, or a row per event.

The arena needs a load without gaps, so it is more lenient than a scenario: rows are sorted by time, rows of the same
time are averaged, and gaps and empty cells are filled with the last value. Invalid input is refused in one line: a
missing column, text, negative values or no values.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidegate.domain import InvalidInput
from tidegate.domain.python310 import UTC
from tidegate_lab.arena.loads import MADE, ArenaLoad

Floats = npt.NDArray[np.float64]

_TIME_COLUMNS = ("timestamp", "time", "period", "date", "datetime")
_EVENT_STEP_S = 10.0
"""Default step for counting events."""
_REGULAR = 0.5
"""Share of distances that must be near the usual one. Otherwise a row is an event, not a count over a time."""
_MOST_STEPS = 5_000_000


def recorded_load(spec: str, step_s: float | None = None, compress: float = 1.0, name: str | None = None) -> ArenaLoad:
    """`FILE[:column]`: by default the first column without times.

    A row with a timestamp counts until the next one; `step_s` overrides that. If rows come at irregular times they are
    events, and their values are summed over `step_s`.
    """
    if step_s is not None and not 0 < step_s < math.inf:
        raise InvalidInput(f"load {spec}: --step-s must be above 0, not {step_s}")
    path, column = _split(spec)
    header, rows = _read(path)
    time_column = next((found for found in header if found.strip().lower() in _TIME_COLUMNS), None)
    if column is None:
        column = next((found for found in header if found != time_column), None)
    if column is None or column not in header:
        raise InvalidInput(f"load {path}: no column {column or ''!r}; it has {', '.join(header) or 'none'}")
    values = np.array([_number(path, line, column, row[column]) for line, row in rows])
    if not len(values) or np.isnan(values).all():
        raise InvalidInput(f"load {path}: column {column} has no values")
    title = name or path.stem
    stamps = None
    if time_column is not None:
        stamps = np.array([_seconds(path, line, time_column, row[time_column]) for line, row in rows])
    if stamps is None or len(stamps) < 2 or np.ptp(stamps) == 0:
        if step_s is None:
            raise InvalidInput(f"load {spec}: no timestamp column; give the seconds per row with --step-s")
        return ArenaLoad(title, _bridged(values), step_s, 0, compress)
    order = np.argsort(stamps, kind="stable")
    stamps, values = stamps[order], values[order]
    usual_s = _usual_step_s(stamps)
    if usual_s is None:
        return ArenaLoad(title, *_counted(path, stamps, values, step_s or _EVENT_STEP_S), 0, compress)
    return ArenaLoad(title, _on_a_grid(path, stamps, values, usual_s), step_s or usual_s, 0, compress)


def _usual_step_s(stamps: Floats) -> float | None:
    """The distance of most rows; None if there is none, because every row is an event."""
    distances = np.diff(stamps)
    usual_s = float(np.median(distances[distances > 0]))
    near = np.abs(distances - usual_s) <= 0.05 * usual_s
    return usual_s if near.mean() >= _REGULAR else None


def _counted(path: Path, stamps: Floats, values: Floats, step_s: float) -> tuple[Floats, float]:
    steps = int((stamps[-1] - stamps[0]) // step_s) + 1
    _check_length(path, steps)
    at = ((stamps - stamps[0]) // step_s).astype(np.int64)
    return np.asarray(np.bincount(at, weights=np.nan_to_num(values), minlength=steps), dtype=np.float64), step_s


def _on_a_grid(path: Path, stamps: Floats, values: Floats, step_s: float) -> Floats:
    times_s, inverse = np.unique(stamps - stamps[0], return_inverse=True)
    known = ~np.isnan(values)
    total = np.bincount(inverse[known], weights=values[known], minlength=len(times_s))
    count = np.bincount(inverse[known], minlength=len(times_s))
    means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    steps = round(times_s[-1] / step_s) + 1
    _check_length(path, steps)
    at = np.searchsorted(times_s, np.arange(steps) * step_s + 0.5 * step_s, side="left") - 1
    return _bridged(means)[np.maximum(at, 0)]


def _check_length(path: Path, steps: int) -> None:
    if steps > _MOST_STEPS:
        raise InvalidInput(f"load {path}: its times span {steps} steps; shorten the file, or give a longer --step-s")


def _bridged(values: Floats) -> Floats:
    """Replace an unknown value by the last known one before it, or at the beginning by the first one."""
    known = np.flatnonzero(~np.isnan(values))
    last = np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)
    return np.asarray(values[known[last]])


def _split(spec: str) -> tuple[Path, str | None]:
    if Path(spec).is_file():
        return Path(spec), None
    path, sign, column = spec.rpartition(":")
    if sign and Path(path).is_file():
        return Path(path), column
    raise InvalidInput(f"load {spec}: no such file, and no load of that name; there are {', '.join(MADE)}")


def _read(path: Path) -> tuple[Sequence[str], list[tuple[int, dict[str, str]]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            return reader.fieldnames or [], [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"load {path}: cannot be read ({error})") from None


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    if text is None or text.strip().lower() in {"", "nan", "null", "na"}:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(f"load {path}, line {line}: {column} is {text!r}, not a number") from None
    if not 0 <= value < math.inf:
        raise InvalidInput(f"load {path}, line {line}: {column} is {value:g}; loads are 0 or more")
    return value


def _seconds(path: Path, line: int, column: str, text: str | None) -> float:
    text = (text or "").strip()
    try:
        value = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(value):
            return value
    try:
        stamp = datetime.fromisoformat(_microseconds(text))
    except ValueError:
        raise InvalidInput(f"load {path}, line {line}: {column} is {text!r}, neither ISO time nor seconds") from None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def _microseconds(text: str) -> str:
    """ISO time with at most six fractional digits, and an offset instead of Z, as older Python versions require."""
    head, point, rest = text.replace("Z", "+00:00").partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return head if not point else f"{head}.{rest[: min(digits, 6)].ljust(6, '0')}{rest[digits:]}"
