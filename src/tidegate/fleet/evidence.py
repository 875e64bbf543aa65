"""What a fleet's files prove afterwards: the runs of an application, whether two overlapped, and its progress.

The evidence comes from the queries: every run has its own gate, where its source records each request for rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tidegate.adapters.spark.gatefile import read_answer
from tidegate.fleet.folder import FleetFolder


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an application, from its lease and its source."""

    epoch: int
    host: str
    taken_s: float
    """When its lease was taken. Its query started later."""
    last_trigger_s: float | None
    """When rows were last requested from its source; None if they never were, or if it has no gate."""


def runs(folder: FleetFolder, application: str) -> list[Run]:
    """Every run, oldest first."""
    found = []
    for record in folder.lease(application).history():
        answer = read_answer(folder.gate(application, record.epoch))
        host = record.owner.partition("/")[0]
        found.append(Run(record.epoch, host, record.taken_s, answer.time_s if answer is not None else None))
    return found


def overlaps(found: list[Run]) -> list[tuple[Run, Run]]:
    """Runs that still requested rows after the next one was allowed to start. There must be none."""
    return [
        (before, after)
        for before, after in pairwise(found)
        if before.last_trigger_s is not None and before.last_trigger_s > after.taken_s
    ]


def commits(folder: FleetFolder, application: str) -> list[tuple[float, int]]:
    """`(time, total rows)` of every batch still in the checkpoint, for a `format("tidegate")` source."""
    checkpoint = folder.checkpoint(application)
    paths = sorted(
        (path for path in (checkpoint / "commits").glob("*") if path.name.isdigit()), key=lambda path: int(path.name)
    )
    return [(path.stat().st_mtime, _end_row(checkpoint / "offsets" / path.name)) for path in paths]


def committed_rows(folder: FleetFolder, application: str) -> int:
    """Rows in committed batches."""
    checkpoint = folder.checkpoint(application)
    batches = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    return _end_row(checkpoint / "offsets" / str(max(batches))) if batches else 0


def _end_row(offsets: Path) -> int:
    return int(json.loads(offsets.read_text().splitlines()[-1])["row"])
