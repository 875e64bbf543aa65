"""What plans are made of, and the two ways to take part: as a proposer for the arbiter, or as a planner by oneself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.domain import Decision, MoveJudgement, Prediction, Proposal, Reason, Receipt
from tidegate.evaluate.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Plan:
    """What is wanted; `reasons` also say why nothing is."""

    proposals: tuple[Proposal, ...] = ()
    reasons: tuple[Reason, ...] = ()
    needed_slots: Mapping[str, float] = field(default_factory=dict)
    """Slots that each application needs, for the journal."""
    predictions: tuple[Prediction, ...] = ()
    rolled_out: int = 0
    """Applications for which candidates were rolled out."""
    moved: tuple[MoveJudgement, ...] = ()
    """State moves that are in place by now, or were given up."""


NOTHING = Plan()
"""What a proposer says that has nothing to say; there are several of them in every step."""


class Planner(Protocol):
    """Turns an evaluation into a plan. Rivals plug in here (entry points `tidegate.controllers`)."""

    def plan(self, evaluation: Evaluation) -> Plan: ...


class Proposer(ABC):
    """One idea about one knob (entry points `tidegate.proposers`).

    `propose` looks and changes nothing: a proposal may be held back, or only recommended. What is remembered changes in
    `watch`, from what was seen, and in `learn`, from what the world answered. It has to live in `memory`, a dataclass
    of plain values, which is saved and restored.
    """

    name: str
    memory: Any = None

    def watch(self, evaluation: Evaluation) -> None:  # noqa: B027  (most have nothing to remember)
        """Remember what was seen; called at every step, in every mode, before `propose`."""

    @abstractmethod
    def propose(self, evaluation: Evaluation) -> Plan:
        """What would help, with reasons; or nothing, with reasons."""

    def learn(self, decision: Decision, receipt: Receipt) -> None:  # noqa: B027
        """Remember what became of a decision that was carried out."""
