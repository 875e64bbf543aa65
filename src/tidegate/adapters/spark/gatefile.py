"""The gate of a source: a small file that limits how much a trigger may take. It is replaced atomically.

The reader of a Python source runs in a separate process beside the driver. A file is the one thing that both can access
without a port. The reader answers in a second file with the limit in force, so that the requested and the actual limit
stay apart.

A gate is always closed until a given time. Whoever closed it opens it again. If that never happens, because the process
died or an error occurred, the closure expires and the source continues.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate.domain.epochs import check_epoch

FENCE = "fence.json"
"""Beside the gate of a run in a fleet: its lease and epoch."""


@dataclass(frozen=True, slots=True)
class GateLimit:
    """What a gate allows."""

    rows_per_trigger: int | None = None
    """None: no limit."""
    interval_s: float = 0.0
    """Minimum time between two batches, in addition to the query's own trigger."""


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What is requested from a gate."""

    admission: GateLimit | None = None
    """None: no limit is requested, and the source's own limit applies."""
    closed_until_s: float = 0.0
    """No batch starts before this time (seconds since the epoch)."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The reader's answer: the limit it applies, and what it knew when rows were last requested."""

    admission: GateLimit
    time_s: float
    arrived_rows: int
    """Total rows that had arrived by then."""
    closed: bool = False
    """True if no batch starts, whatever the limit is."""


def write_request(path: Path, request: GateRequest) -> None:
    """Send a new request to a gate."""
    admission = asdict(request.admission) if request.admission is not None else {}
    _replace(path, admission | {"closed_until_s": request.closed_until_s})


def read_request(path: Path) -> GateRequest:
    """The current request; an empty one if the file is missing or unreadable."""
    fields = _read(path)
    try:
        closed_until_s = float(fields.get("closed_until_s") or 0.0)
    except (ValueError, TypeError):
        closed_until_s = 0.0
    return GateRequest(_admission(fields), closed_until_s)


def write_admission(path: Path, admission: GateLimit) -> None:
    """Request another limit from an open gate."""
    write_request(path, GateRequest(admission))


def read_admission(path: Path) -> GateLimit | None:
    """The requested limit of a gate, or None."""
    return read_request(path).admission


def write_answer(path: Path, answer: InForce) -> None:
    """Write what is in force, beside the file with the request."""
    _replace(_answer_path(path), asdict(answer))


def read_answer(path: Path) -> InForce | None:
    """What is in force at a gate, or None if no reader has used it yet."""
    fields = _read(_answer_path(path))
    admission = _admission(fields.get("admission") or {})
    if admission is None:
        return None
    return InForce(admission, float(fields["time_s"]), int(fields["arrived_rows"]), bool(fields.get("closed")))


def check_fence(path: Path) -> None:
    """Raises `StaleEpoch` if the gate belongs to a run in a fleet that another run has replaced.

    Called before every batch. Raises `OSError` if the lease cannot be read: its state is unknown, so no batch starts.
    """
    fence = _read(path.with_name(FENCE))
    if fence:
        check_epoch((each.name for each in Path(str(fence.get("lease"))).iterdir()), int(fence.get("epoch", 0)))


def forget_gate(path: Path) -> None:
    """Reset the gate: no request and no answer."""
    path.unlink(missing_ok=True)
    _answer_path(path).unlink(missing_ok=True)


def _answer_path(path: Path) -> Path:
    return path.with_name(path.name + ".inforce")


def _admission(fields: dict[str, Any]) -> GateLimit | None:
    try:
        rows, interval_s = fields["rows_per_trigger"], float(fields["interval_s"])
        return GateLimit(None if rows is None else max(1, int(rows)), max(0.0, interval_s))
    except (ValueError, KeyError, TypeError):
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _replace(path: Path, fields: dict[str, Any]) -> None:
    """Replace the file atomically, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(json.dumps(fields))
    draft.replace(path)
