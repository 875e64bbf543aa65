"""A journal in lists, for tests and simulations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.control.journal.entry import Entry, Note
from tidegate.domain import Decision, Observation, Receipt


class MemoryJournal:
    """Keeps everything."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.notes: list[Note] = []
        self.blobs: dict[str, bytes] = {}

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None:
        number = len(self.entries) + 1
        self.entries.append(Entry(observation.time_s, observation, decision, receipt, number=number))

    def judge(self, step: int, body: Mapping[str, Any]) -> None:
        """Add an outcome to the newest decision with this step."""
        for place in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[place]
            if entry.decision is not None and entry.decision.step == step:
                self.entries[place] = replace(entry, outcomes=(*entry.outcomes, dict(body)))
                return

    def note(self, time_s: float, event: str, text: str) -> None:
        self.notes.append(Note(time_s, event, text))

    def load_blob(self, name: str) -> bytes | None:
        return self.blobs.get(name)

    def save_blob(self, name: str, body: bytes) -> None:
        self.blobs[name] = body
