"""Local policies: how many replicas one operator wants, judged only from its own host."""

from tidegate.managers.policies.apprentice import Apprentice
from tidegate.managers.policies.decision_process import DecisionProcess, Weights
from tidegate.managers.policies.modelbased import LearnedModel, ModelBased
from tidegate.managers.policies.planned import Planned
from tidegate.managers.policies.policy import (
    HOLD,
    LocalPolicy,
    OperatorLimits,
    OperatorView,
    Wish,
    objective_share,
)
from tidegate.managers.policies.qlearning import Experience, QLearning
from tidegate.managers.policies.threshold import Threshold

__all__ = [
    "HOLD",
    "Apprentice",
    "DecisionProcess",
    "Experience",
    "LearnedModel",
    "LocalPolicy",
    "ModelBased",
    "OperatorLimits",
    "OperatorView",
    "Planned",
    "QLearning",
    "Threshold",
    "Weights",
    "Wish",
    "objective_share",
]
