"""The gate of a source: a small file that says how much a trigger may take, replaced as a whole while the query runs.

The reader of a Python source lives in a process of its own beside the driver; a file is the one thing that both can
see without a port. The reader answers in a second file with the limit that it has in force, so that what was asked
for and what is so stay apart.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Admission:
    """What a gate lets through."""

    rows_per_trigger: int | None = None
    """None: no limit."""
    interval_s: float = 0.0
    """The shortest time between two batches, beyond what the query's own trigger asks."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What the reader answers: the limit that it obeys, and what it knew when it was last asked for rows."""

    admission: Admission
    time_s: float
    arrived_rows: int
    """Rows that had ever arrived by then."""


def write_admission(path: Path, admission: Admission) -> None:
    """Ask a gate for something else."""
    _replace(path, asdict(admission))


def read_admission(path: Path) -> Admission | None:
    """What is asked of a gate, or None where nothing is (or it cannot be read: then nothing has been asked)."""
    return _admission(_read(path))


def write_answer(path: Path, answer: InForce) -> None:
    """Say what is in force, beside the file that says what is asked."""
    _replace(_answer_path(path), asdict(answer))


def read_answer(path: Path) -> InForce | None:
    """What is in force at a gate, or None where no reader has come to it yet."""
    fields = _read(_answer_path(path))
    admission = _admission(fields.get("admission") or {})
    if admission is None:
        return None
    return InForce(admission, float(fields["time_s"]), int(fields["arrived_rows"]))


def forget_gate(path: Path) -> None:
    """Begin anew: nothing is asked, and nobody has answered."""
    path.unlink(missing_ok=True)
    _answer_path(path).unlink(missing_ok=True)


def _answer_path(path: Path) -> Path:
    return path.with_name(path.name + ".inforce")


def _admission(fields: dict[str, Any]) -> Admission | None:
    try:
        rows, interval_s = fields["rows_per_trigger"], float(fields["interval_s"])
        return Admission(None if rows is None else max(1, int(rows)), max(0.0, interval_s))
    except (ValueError, KeyError, TypeError):
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _replace(path: Path, fields: dict[str, Any]) -> None:
    """Replace the file in one step, so that nobody ever reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(json.dumps(fields))
    draft.replace(path)
