"""The gate of a source: a small file that says how much a trigger may take, replaced as a whole while the query runs.

The reader of a Python source lives in a process of its own beside the driver; a file is the one thing that both can
see without a port. The reader answers in a second file with the limit that it has in force, so that what was asked
for and what is so stay apart.

A gate is only ever closed until a given time. Whoever closed it opens it again; if that never happens, because its
process died or an error got in the way, the closure expires and the source goes on by itself.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate.domain.epochs import check_epoch

FENCE = "fence.json"
"""Beside the gate of a run in a fleet: which lease it has, and in which epoch."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What a gate lets through."""

    rows_per_trigger: int | None = None
    """None: no limit."""
    interval_s: float = 0.0
    """The shortest time between two batches, beyond what the query's own trigger asks."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a gate."""

    admission: Admission | None = None
    """None: nothing is asked, and the source's own limit holds."""
    closed_until_s: float = 0.0
    """No batch begins before this time (seconds since the epoch)."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What the reader answers: the limit that it obeys, and what it knew when it was last asked for rows."""

    admission: Admission
    time_s: float
    arrived_rows: int
    """Rows that had ever arrived by then."""
    closed: bool = False
    """Does no batch begin, whatever the limit is?"""


def write_request(path: Path, request: Request) -> None:
    """Ask a gate for something else."""
    admission = asdict(request.admission) if request.admission is not None else {}
    _replace(path, admission | {"closed_until_s": request.closed_until_s})


def read_request(path: Path) -> Request:
    """What is asked of a gate; nothing where the file is missing or cannot be read."""
    fields = _read(path)
    try:
        closed_until_s = float(fields.get("closed_until_s") or 0.0)
    except (ValueError, TypeError):
        closed_until_s = 0.0
    return Request(_admission(fields), closed_until_s)


def write_admission(path: Path, admission: Admission) -> None:
    """Ask an open gate for another limit."""
    write_request(path, Request(admission))


def read_admission(path: Path) -> Admission | None:
    """The limit that is asked of a gate, or None where none is."""
    return read_request(path).admission


def write_answer(path: Path, answer: InForce) -> None:
    """Say what is in force, beside the file that says what is asked."""
    _replace(_answer_path(path), asdict(answer))


def read_answer(path: Path) -> InForce | None:
    """What is in force at a gate, or None where no reader has come to it yet."""
    fields = _read(_answer_path(path))
    admission = _admission(fields.get("admission") or {})
    if admission is None:
        return None
    return InForce(admission, float(fields["time_s"]), int(fields["arrived_rows"]), bool(fields.get("closed")))


def check_fence(path: Path) -> None:
    """Raises `StaleEpoch` where the gate belongs to a run in a fleet that another has replaced.

    Called before every batch. Raises `OSError` where the lease cannot be looked at: nothing is known, no batch begins.
    """
    fence = _read(path.with_name(FENCE))
    if fence:
        check_epoch((each.name for each in Path(str(fence.get("lease"))).iterdir()), int(fence.get("epoch", 0)))


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
