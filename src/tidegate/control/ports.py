"""The doors between the controller and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tidegate.domain import Decision, Observation, Receipt, Targets


class Cluster(Protocol):
    """A world that can be watched and steered: live Spark, a host, or the simulator."""

    def observe(self) -> Observation:
        """Look, and change nothing. Each batch appears in one observation only."""
        ...

    def converge(self, targets: Targets) -> Receipt:
        """Drive the world towards the targets. Called at every tick; a target that is reached stays reached."""
        ...

    def release(self) -> None:
        """Turn back everything that was turned; executors stay, because the job may need them."""
        ...


class Clock(Protocol):
    """Time as the runner sees it; the simulator's runs as fast as it can."""

    def now_s(self) -> float:
        """The time that observations are stamped with."""
        ...

    def monotonic_s(self) -> float:
        """A time that only goes forward, whatever somebody sets the clock to; for waiting."""
        ...

    def sleep_until(self, monotonic_s: float) -> bool:
        """Wait; False where the wait was cut short because control is to end."""
        ...


class Journal(Protocol):
    """Every step with its reasons, holds included."""

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None: ...

    def judge(self, step: int, body: Mapping[str, Any]) -> None:
        """What came of the decision with this step, in plain values."""
        ...

    def note(self, time_s: float, event: str, text: str) -> None:
        """Something that happened to the control itself: started, failed, ended."""
        ...


class KnowledgeStore(Protocol):
    """Where knowledge outlives the process."""

    def load_blob(self, name: str) -> bytes | None: ...

    def save_blob(self, name: str, body: bytes) -> None: ...
