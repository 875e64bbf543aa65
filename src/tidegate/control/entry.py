"""What a journal holds."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain import Decision, Observation, Receipt


@dataclass(frozen=True, slots=True)
class Entry:
    """One step as it was recorded."""

    time_s: float
    observation: Observation | None
    decision: Decision | None
    receipt: Receipt | None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened to the control itself."""

    time_s: float
    event: str
    text: str
