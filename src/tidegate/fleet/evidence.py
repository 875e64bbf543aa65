"""What the files of a fleet prove afterwards: which runs an application had, whether two overlapped, how far it got.

The evidence is the queries' own: every run has its own gate, where its source notes each time it is asked for rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tidegate.adapters.spark.admission import read_answer
from tidegate.fleet.folder import FleetFolder


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an application, from its lease and its source."""

    epoch: int
    host: str
    taken_s: float
    """When its lease was taken; its query started later."""
    last_trigger_s: float | None
    """When its source was last asked for rows; None where it never was, or has no gate."""


def runs(folder: FleetFolder, application: str) -> list[Run]:
    """Every run, oldest first."""
    found = []
    for record in folder.lease(application).history():
        answer = read_answer(folder.gate(application, record.epoch))
        host = record.owner.partition("/")[0]
        found.append(Run(record.epoch, host, record.taken_s, answer.time_s if answer is not None else None))
    return found


def overlaps(found: list[Run]) -> list[tuple[Run, Run]]:
    """Runs that still asked for rows when the next one had been allowed to begin: there must be none."""
    return [
        (before, after)
        for before, after in pairwise(found)
        if before.last_trigger_s is not None and before.last_trigger_s > after.taken_s
    ]


def commits(folder: FleetFolder, application: str) -> list[tuple[float, int]]:
    """`(when, rows ever done)` of every batch that the checkpoint still knows; for a `format("tidegate")` source."""
    checkpoint = folder.checkpoint(application)
    paths = sorted(
        (path for path in (checkpoint / "commits").glob("*") if path.name.isdigit()), key=lambda path: int(path.name)
    )
    return [(path.stat().st_mtime, _end_row(checkpoint / "offsets" / path.name)) for path in paths]


def committed_rows(folder: FleetFolder, application: str) -> int:
    """Rows that are in committed batches."""
    checkpoint = folder.checkpoint(application)
    batches = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    return _end_row(checkpoint / "offsets" / str(max(batches))) if batches else 0


def _end_row(offsets: Path) -> int:
    return int(json.loads(offsets.read_text().splitlines()[-1])["row"])
