"""What a journal holds: steps, notes, and one summary per minute for old steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.domain import Decision, Observation, Receipt


@dataclass(frozen=True, slots=True)
class Entry:
    """One step as it was recorded."""

    time_s: float
    observation: Observation | None
    """None if it was not requested or is past the retention period."""
    decision: Decision | None
    receipt: Receipt | None
    outcomes: tuple[Mapping[str, Any], ...] = ()
    """The measured outcomes of the decision, one by application, once they are known."""
    number: int = field(default=0, compare=False)
    """Its position in the journal, increasing."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event of the controller itself."""

    time_s: float
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class ApplicationRollUp:
    """One application in one minute."""

    application: str
    rows: int
    """Rows of committed batches."""
    arrival_rows_per_s: float | None
    """Mean of the controller's estimates."""
    latency_p50_s: float | None
    """Row-weighted mean of the batches' medians. Quantiles cannot be merged, so this only approximates the median."""
    latency_p99_s: float | None
    """The largest of the batches' 99th percentiles: an upper bound."""
    over_objective: float | None
    """Largest share of samples that missed a row of the QoS table, if the decisions have a reading."""
    backlog_rows: int | None
    """At the end of the minute."""
    slot_s: float
    """Slot-seconds of its tasks."""


@dataclass(frozen=True, slots=True)
class RollUp:
    """One minute past the retention period. Decisions that acted are kept as entries."""

    time_s: float
    """Start of the minute."""
    steps: int
    executors_requested: float
    """Mean over the minute's steps."""
    executors_registered: float
    applications: tuple[ApplicationRollUp, ...]
