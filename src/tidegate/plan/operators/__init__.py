"""Operators (Me-Stream): finds the operator that limits an application, and rescales it."""

from tidegate.plan.operators.proposer import Operators

__all__ = ["Operators"]
