"""Service classes (Q-Flink): shares the slots of a pool among classes by model-predictive control."""

from tidegate.plan.classes.proposer import Classes

__all__ = ["Classes"]
