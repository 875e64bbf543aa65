"""What an actuator can do here, and where it cannot, why: data, so that a plan uses what exists."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capability:
    """One knob."""

    actuator: str
    able: bool
    reason: str
    """How it is done, or what stands in the way."""

    def __str__(self) -> str:
        return f"{self.actuator}: {'yes' if self.able else 'no'} ({self.reason})"
