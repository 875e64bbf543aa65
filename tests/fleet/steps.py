"""Evaluations for the fleet's proposers and guards, made by the evaluator itself."""

from __future__ import annotations

from tidegate.domain import ExecutorPool, FleetSample, Observation, Standing
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator


def evaluation(
    fleet: FleetSample | None = None, time_s: float = 1000.0, standing: Standing | None = None
) -> Evaluation:
    observation = Observation(time_s, (), ExecutorPool((), 0, 1), fleet=fleet, standing=standing)
    return Evaluator(Policy(), EvaluationMemory()).evaluate(observation)
