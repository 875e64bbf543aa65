"""What an actuator can do on this cluster, and the reason if it cannot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capability:
    """One knob and whether it works here."""

    actuator: str
    able: bool
    reason: str
    """How it works, or why it does not."""

    def __str__(self) -> str:
        return f"{self.actuator}: {'yes' if self.able else 'no'} ({self.reason})"
