"""What a journal holds: steps, notes, and of long ago a summary of every minute."""

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
    """None where it was not asked for, or is beyond the retention period."""
    decision: Decision | None
    receipt: Receipt | None
    outcome: Mapping[str, Any] | None = None
    """What came of the decision, where that has been judged."""
    number: int = field(default=0, compare=False)
    """Its place in the journal, rising."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened to the control itself."""

    time_s: float
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class ApplicationRollUp:
    """One application in one minute."""

    application: str
    rows: int
    """Of the batches that were committed."""
    arrival_rows_per_s: float | None
    """Mean of what the controller believed."""
    latency_p50_s: float | None
    """Mean of the batches' medians, weighted by rows: quantiles do not merge, so this is near the median, not it."""
    latency_p99_s: float | None
    """The largest of the batches' 99th percentiles: an upper bound."""
    over_objective: float | None
    """Largest share of samples that missed a row of the QoS table, where the decisions have a reading."""
    backlog_rows: int | None
    """At the end of the minute."""
    slot_s: float
    """Slot-seconds of its tasks."""


@dataclass(frozen=True, slots=True)
class RollUp:
    """One minute that is beyond the retention period; its decisions that acted are kept as entries."""

    time_s: float
    """When the minute began."""
    steps: int
    executors_requested: float
    """Mean over the minute's steps."""
    executors_registered: float
    applications: tuple[ApplicationRollUp, ...]
