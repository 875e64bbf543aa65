"""Operators (Me-Stream): finds the operator that holds an application back, and gives it the tasks that help."""

from tidegate.plan.operators.proposer import Operators

__all__ = ["Operators"]
