"""What all rivals share: when they decide, what they may look at, and how a wish becomes a plan.

A rival is a controller behind the product's own port (`Planner`), so it can also be plugged into `tidegate simulate`.
It uses only measurements, never what Tidegate derives from them, so the arena may give it a bare `Glance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tidegate.domain import ApplicationSample, ExecutorPool, HostSample, Observation, Proposal, Reason, ScaleExecutors
from tidegate.plan.planner import Plan
from tidegate_lab.arena.rivals.measures import Measures, Meter


class Sight(Protocol):
    """The measured part of an `Evaluation`, and the bounds of the policy."""

    @property
    def time_s(self) -> float: ...

    @property
    def pool(self) -> ExecutorPool: ...

    @property
    def hosts(self) -> tuple[HostSample, ...]: ...

    @property
    def samples(self) -> tuple[ApplicationSample, ...]: ...

    @property
    def executor_bounds(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Glance:
    """An observation as a rival sees it, without an evaluation."""

    observation: Observation
    executor_bounds: tuple[int, int]

    @property
    def time_s(self) -> float:
        return self.observation.time_s

    @property
    def pool(self) -> ExecutorPool:
        return self.observation.pool

    @property
    def hosts(self) -> tuple[HostSample, ...]:
        return self.observation.hosts

    @property
    def samples(self) -> tuple[ApplicationSample, ...]:
        return self.observation.applications


class Rival(ABC):
    """Decides every `period_s` from what was measured since its last decision.

    It may be called more often. Observations in between go into the measures of its next decision.
    """

    name: ClassVar[str]
    period_s: float = 60.0

    def __init__(self) -> None:
        self._meter = Meter()
        self._due_s: float | None = None

    @abstractmethod
    def wish(self, now: Measures) -> tuple[int, str] | None:
        """The number of executors it wants, and why; None to keep the current number."""

    def plan(self, sight: Sight) -> Plan:
        self._meter.look(sight.time_s, sight.pool, sight.samples, sight.hosts)
        if self._due_s is None:
            self._due_s = sight.time_s + self.period_s
        if sight.time_s < self._due_s - 1e-6:
            return Plan()
        self._due_s += self.period_s
        measures = self._meter.take()
        if measures is None:
            return Plan()
        wanted = self.wish(measures)
        if wanted is None:
            return Plan()
        least, most = sight.executor_bounds
        size = min(most, max(least, wanted[0]))
        if size == sight.pool.requested:
            return Plan()
        text = f"{wanted[1]}: from {sight.pool.requested} to {size} executors"
        return Plan((Proposal(ScaleExecutors(size), Reason(self.name, text)),))
