"""What every planner is given and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.domain import ApplicationSample, ExecutorPool, HostSample, Proposal, Reason
from tidegate.domain.policy import Policy
from tidegate.monitor.workload import Workload


@dataclass(frozen=True, slots=True)
class Known:
    """One application that can be planned for, or the reason why it cannot."""

    sample: ApplicationSample
    workload: Workload | None
    distrust: Reason | None


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a planner may look at."""

    time_s: float
    applications: tuple[Known, ...]
    pool: ExecutorPool
    policy: Policy
    hosts: tuple[HostSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a planner wants; `reasons` also say why it wants nothing."""

    proposals: tuple[Proposal, ...]
    reasons: tuple[Reason, ...]
    needed_slots: dict[str, float]
    """Per application: the slots it needs, for the journal."""


class Planner(Protocol):
    """Turns a situation into proposals. All its state lives in the memory that it is given at construction."""

    def plan(self, situation: Situation) -> Plan: ...
