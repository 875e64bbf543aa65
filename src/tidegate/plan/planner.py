"""Plans, and the two interfaces for making them: a proposer for the arbiter, or a complete planner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.domain import Decision, MoveJudgement, Prediction, Proposal, Reason, Receipt
from tidegate.evaluate.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Plan:
    """Proposed actions. `reasons` also explain why nothing is proposed."""

    proposals: tuple[Proposal, ...] = ()
    reasons: tuple[Reason, ...] = ()
    needed_slots: Mapping[str, float] = field(default_factory=dict)
    """Slots that each application needs, for the journal."""
    predictions: tuple[Prediction, ...] = ()
    rolled_out: int = 0
    """Applications for which candidates were rolled out."""
    moved: tuple[MoveJudgement, ...] = ()
    """State moves that have completed or were given up."""


NOTHING = Plan()
"""The plan of a proposer without proposals. There are several at every step."""


class Planner(Protocol):
    """Turns an evaluation into a plan. Rivals plug in here (entry points `tidegate.controllers`)."""

    def plan(self, evaluation: Evaluation) -> Plan: ...


class Proposer(ABC):
    """One idea about one knob (entry points `tidegate.proposers`).

    `propose` has no side effects: a proposal may be held back, or only recommended. Memory changes in `watch`, from
    observations, and in `learn`, from the world's answers. It must be kept in `memory`, a dataclass of plain values,
    which is saved and restored.
    """

    name: str
    memory: Any = None

    def watch(self, evaluation: Evaluation) -> None:  # noqa: B027  (most have nothing to remember)
        """Remember what was observed. Called at every step, in every mode, before `propose`."""

    @abstractmethod
    def propose(self, evaluation: Evaluation) -> Plan:
        """Actions that would help, with reasons; or nothing, with reasons."""

    def learn(self, decision: Decision, receipt: Receipt) -> None:  # noqa: B027
        """Remember the outcome of a decision that was carried out."""
