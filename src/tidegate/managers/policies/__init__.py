"""Local policies: how many replicas one operator wants, judged only from its own host."""

from tidegate.managers.policies.decision_process import DecisionProcess, Weights
from tidegate.managers.policies.localpolicy import (
    HOLD,
    LocalPolicy,
    OperatorLimits,
    OperatorView,
    Wish,
)
from tidegate.managers.policies.modelbased import LearnedModel, ModelBased
from tidegate.managers.policies.qlearning import Experience, QLearning
from tidegate.managers.policies.rescue import rescued
from tidegate.managers.policies.threshold import Threshold

__all__ = [
    "HOLD",
    "DecisionProcess",
    "Experience",
    "LearnedModel",
    "LocalPolicy",
    "ModelBased",
    "OperatorLimits",
    "OperatorView",
    "QLearning",
    "Threshold",
    "Weights",
    "Wish",
    "rescued",
]
