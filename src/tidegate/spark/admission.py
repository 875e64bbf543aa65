"""The gate of a source: a small file that says how much a trigger may take, replaced as a whole while the query runs.

The reader of a Python source lives in a process of its own beside the driver; a file is the one thing that both can
see without a port. The reader answers in a second file with the limit that it has in force, so that what was asked
for and what is so stay apart.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Admission:
    """What a gate lets through."""

    rows_per_trigger: int | None = None
    """None: no limit."""
    interval_s: float = 0.0
    """The shortest time between two batches, beyond what the query's own trigger asks."""


def write_admission(path: Path, admission: Admission) -> None:
    """Replace the gate's file in one step, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    draft.write_text(json.dumps({"rows_per_trigger": admission.rows_per_trigger, "interval_s": admission.interval_s}))
    draft.replace(path)


def read_admission(path: Path) -> Admission | None:
    """What the file says, or None where there is none (or it cannot be read: then nothing has been asked)."""
    try:
        fields = json.loads(path.read_text())
        rows, interval_s = fields["rows_per_trigger"], float(fields["interval_s"])
        return Admission(None if rows is None else max(1, int(rows)), max(0.0, interval_s))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def answer_path(path: Path) -> Path:
    """Where the reader says what is in force."""
    return path.with_name(path.name + ".inforce")
