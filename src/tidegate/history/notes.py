"""What was skipped while reading, and why. Problems are counted and reported once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_MOST_SENTENCES = 50


@dataclass(slots=True)
class Notes:
    """Notes collected while a history is read."""

    lines: int = 0
    unreadable_lines: int = 0
    """Lines that are not JSON: truncated or damaged."""
    malformed_events: int = 0
    """Events of a known kind with invalid content."""
    unknown_events: Counter[str] = field(default_factory=Counter)
    """Events of unknown kinds, by kind."""
    spark_version: str | None = None
    _sentences: dict[str, None] = field(default_factory=dict)

    def add(self, sentence: str) -> None:
        """Add a sentence for the user, unless it is already there."""
        if len(self._sentences) < _MOST_SENTENCES:
            self._sentences.setdefault(sentence)

    def sentences(self) -> list[str]:
        """Return all notes about how the history was read."""
        counted = []
        if self.unreadable_lines:
            counted.append(f"{self.unreadable_lines} of {self.lines} lines are truncated or not JSON and were skipped")
        if self.malformed_events:
            counted.append(f"{self.malformed_events} events have invalid content and were skipped")
        if self.unknown_events:
            kinds = ", ".join(f"{kind} × {count}" for kind, count in self.unknown_events.most_common(4))
            counted.append(f"{self.unknown_events.total()} events of unknown kinds were skipped ({kinds})")
        return [*self._sentences, *counted]
