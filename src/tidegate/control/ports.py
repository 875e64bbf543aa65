"""The interfaces between the controller and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tidegate.domain import Decision, Observation, Receipt, Targets


class Cluster(Protocol):
    """A world that can be observed and controlled: live Spark, a host, or the simulator."""

    def observe(self) -> Observation:
        """Observe without changing anything. Each batch appears in exactly one observation."""
        ...

    def converge(self, targets: Targets) -> Receipt:
        """Drive the world towards the targets. Called at every tick; does nothing where they are already met."""
        ...

    def release(self) -> None:
        """Restore everything that was changed, except executors: the job may need them."""
        ...


class RunnerClock(Protocol):
    """Time as the runner sees it. The simulator's clock runs as fast as it can."""

    def now_s(self) -> float:
        """The time stamp of observations."""
        ...

    def monotonic_s(self) -> float:
        """A time that never goes back, even if the clock is set; used for waiting."""
        ...

    def sleep_until(self, monotonic_s: float) -> bool:
        """Wait. Returns False if the wait was cut short because control is ending."""
        ...


class Journal(Protocol):
    """Every step with its reasons, holds included."""

    def record(self, observation: Observation, decision: Decision | None, receipt: Receipt | None) -> None: ...

    def judge(self, step: int, body: Mapping[str, Any]) -> None:
        """Record the outcome of the decision with this step for one application, in plain values."""
        ...

    def note(self, time_s: float, event: str, text: str) -> None:
        """Record an event of the controller itself: started, failed, ended."""
        ...


class KnowledgeStore(Protocol):
    """Stores knowledge beyond the life of the process."""

    def load_blob(self, name: str) -> bytes | None: ...

    def save_blob(self, name: str, body: bytes) -> None: ...
