"""What was left out while reading, and why: counted, said once, never a crash."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_MOST_SENTENCES = 50


@dataclass(slots=True)
class Notes:
    """Collected while a history is read."""

    lines: int = 0
    unreadable_lines: int = 0
    """Lines that are no JSON: truncated or damaged."""
    malformed_events: int = 0
    """Events of a known kind whose content makes no sense."""
    unknown_events: Counter[str] = field(default_factory=Counter)
    """Events of a kind that is not known here, by kind."""
    quiet_events: int = 0
    """Events of a known kind that say nothing about performance."""
    spark_version: str | None = None
    _sentences: dict[str, None] = field(default_factory=dict)

    def add(self, sentence: str) -> None:
        """Remember a sentence for the user, each once."""
        if len(self._sentences) < _MOST_SENTENCES:
            self._sentences.setdefault(sentence)

    def sentences(self) -> list[str]:
        """Everything a user should know about how the history was read."""
        counted = []
        if self.unreadable_lines:
            counted.append(f"{self.unreadable_lines} of {self.lines} lines are truncated or no JSON and were skipped")
        if self.malformed_events:
            counted.append(f"{self.malformed_events} events make no sense and were skipped")
        if self.unknown_events:
            kinds = ", ".join(f"{kind} × {count}" for kind, count in self.unknown_events.most_common(4))
            counted.append(f"{self.unknown_events.total()} events of unknown kinds were skipped ({kinds})")
        return [*self._sentences, *counted]
