"""The four doors between the controller and everything else."""

from __future__ import annotations

from typing import Protocol

from tidegate.control.knowledge import Knowledge
from tidegate.domain import Decision, Observation, Receipt


class Cluster(Protocol):
    """A world that can be watched and steered: live Spark, or the simulator."""

    def observe(self) -> Observation:
        """What is to be seen now; each batch appears in one observation only."""
        ...

    def apply(self, decision: Decision) -> Receipt:
        """Drive the world towards the decision. Safe to repeat: a target that is already reached stays reached."""
        ...


class Clock(Protocol):
    """Time as the runner sees it; the simulator's runs as fast as it can."""

    def now_s(self) -> float: ...

    def sleep_until(self, time_s: float) -> bool:
        """Wait; False where the wait was cut short because control is to end."""
        ...


class Journal(Protocol):
    """Every step with its reasons, holds included."""

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None: ...

    def note(self, time_s: float, event: str, text: str) -> None:
        """Something that happened to the control itself: started, ended, failed."""
        ...


class KnowledgeStore(Protocol):
    """Where knowledge outlives the process."""

    def load(self) -> Knowledge | None: ...

    def save(self, knowledge: Knowledge) -> None: ...
