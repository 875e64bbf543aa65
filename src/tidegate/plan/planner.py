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
    """Proposed actions and reasons. Without proposals, the reasons say why nothing is proposed."""

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
    """One rule about when to change one knob (entry points `tidegate.proposers`).

    `propose` must have no side effects, because a proposal may be held back or only recommended. State belongs in
    `memory`, a dataclass of plain values that is saved and restored. It changes in `watch`, from what was observed, and
    in `learn`, from what was carried out.
    """

    name: str
    memory: Any = None

    def watch(self, evaluation: Evaluation) -> None:  # noqa: B027  (most have nothing to remember)
        """Remember what was observed. Called at every step, in every mode, before `propose`."""

    @abstractmethod
    def propose(self, evaluation: Evaluation) -> Plan:
        """Propose actions with reasons, or say why nothing is proposed."""

    def learn(self, decision: Decision, receipt: Receipt) -> None:  # noqa: B027
        """Remember the outcome of a decision that was carried out."""
