"""Samples and closed loops that the tests of operator elasticity share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.control.journal import Entry
from tidegate.domain import (
    Action,
    ActionReceipt,
    ApplicationSample,
    BatchSample,
    Decision,
    DriverTimes,
    LatencySample,
    Observation,
    OperatorSample,
    Outcome,
    Receipt,
    SetParallelism,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate.bottleneck import ApplicationMetrics, aggregate
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.plan.operators import Operators
from tidegate.plan.operators.memory import OperatorsMemory
from tidegate.plan.planner import Plan, Proposer
from tidegate.plan.proposersettings import OperatorSettings
from tidegate_lab.experiments.identification import steer

OPERATORS_ONLY = {"executors": False, "admission": False}
SLOTS = 6
LINES = SimOperator("lines", 0.0001, 1, task_overhead_s=0.01)
SPLIT = SimOperator("split", 0.0012, 1, task_overhead_s=0.01)
COUNT = SimOperator("count", 0.0006, 1, task_overhead_s=0.01)
WORDS = SimApplication("words", 400, 1.0, 0.1, operators=(LINES, SPLIT, COUNT))


def operator(name: str, **changes: Any) -> OperatorSample:
    """100 rows in 1 s of a slot."""
    values: dict[str, Any] = {
        "name": name,
        "parallelism": 1,
        "rows_in": 100,
        "busy_s": 1.0,
        "cpu_s": 1.0,
        "communication_s": 0.0,
        "execute_latency_s": 1.0,
        "rows_out": 100,
    }
    return OperatorSample(**{**values, **changes})


def batch(number: int, *operators: OperatorSample, **changes: Any) -> BatchSample:
    """A batch every two seconds, of which 0.2 s are the driver's."""
    duration_s = 0.2 + sum(stage.execute_latency_s or 0.0 for stage in operators)
    values: dict[str, Any] = {
        "batch_id": number,
        "started_s": 100.0 + 2 * number,
        "duration_s": duration_s,
        "rows": 100,
        "busy_s": sum(stage.busy_s for stage in operators),
        "overhead_s": 0.2,
        "backlog_rows": 0,
        "operators": operators,
        "latency": LatencySample(100, duration_s + 1, duration_s + 1.8, duration_s + 2, duration_s + 2),
        "driver": DriverTimes(0.1, 0.04, 0.06),
    }
    return BatchSample(**{**values, **changes})


def metrics_of(
    *operators: OperatorSample, interval_s: float = 1.0, batches: int = 5, **changes: Any
) -> ApplicationMetrics:
    made = tuple(batch(number, *operators, **changes) for number in range(batches))
    found = aggregate(ApplicationSample("app", made, made[-1].committed_s, interval_s), made)
    assert found is not None
    return found


def with_operators(*operators: SimOperator, **changes: Any) -> SimApplication:
    return replace(WORDS, operators=operators, **changes)


def run(
    *applications: SimApplication,
    objective_s: float,
    until_s: float = 120,
    slots: int = SLOTS,
    settings: OperatorSettings | None = None,
    **policy: Any,
) -> tuple[SimCluster, list[Entry]]:
    """A closed loop in the simulator in which only parallelism may be turned: what is done is the operators proposer's.

    It is the default controller, unless `settings` ask for another rule: then the proposer alone.
    """
    cluster = SimCluster(applications, slots // 2, 2, seed=1)
    whole = Policy.model_validate({"objective": {"latency_s": objective_s}, "knobs": OPERATORS_ONLY, **policy})
    planner = None if settings is None else Alone(Operators(settings=settings))
    return cluster, list(steer(cluster, whole, until_s, planner))


class Alone(Proposer):
    """The operators proposer in the place of the arbiter."""

    name = "alone"

    def __init__(self, operators: Operators) -> None:
        self.operators = operators

    def watch(self, evaluation: Evaluation) -> None:
        self.operators.watch(evaluation)

    def propose(self, evaluation: Evaluation) -> Plan:
        return self.operators.propose(evaluation)

    plan = propose

    def learn(self, decision: Decision, receipt: Receipt) -> None:
        self.operators.learn(decision, receipt)


class Desk:
    """One `Operators` proposer, fed with observations; what it asks for is answered as the test says."""

    def __init__(self, objective_s: float = 2.0, settings: OperatorSettings | None = None, **policy: Any) -> None:
        self.policy = Policy.model_validate({"objective": {"latency_s": objective_s}, **policy})
        self.evaluator = Evaluator(self.policy, EvaluationMemory())
        self.proposer = Operators(settings=settings)
        self.step = 0

    @property
    def memory(self) -> OperatorsMemory:
        return self.proposer.memory

    def look(self, observation: Observation) -> Plan:
        """Watch and propose, as in mode recommend."""
        evaluation = self.evaluator.evaluate(observation)
        self.proposer.watch(evaluation)
        return self.proposer.propose(evaluation)

    def act(self, observation: Observation, outcome: Outcome = Outcome.UNDER_WAY) -> Plan:
        """The same, and everything that is asked for gets this answer."""
        plan = self.look(observation)
        answer(self.proposer, observation.time_s, plan, dict.fromkeys(actions_of(plan), outcome))
        return plan


def actions_of(plan: Plan) -> list[Action]:
    return [proposal.action for proposal in plan.proposals]


def answer(proposer: Operators, time_s: float, plan: Plan, outcomes: dict[Action, Outcome]) -> None:
    """What the world says to a plan that was decided as it is."""
    decision = Decision(1, time_s, tuple(actions_of(plan)), (), plan.reasons)
    proposer.learn(decision, Receipt(tuple(ActionReceipt(action, one) for action, one in outcomes.items())))


def codes(entries: list[Entry]) -> set[str]:
    return {reason.code for entry in entries if entry.decision for reason in entry.decision.reasons}


def text_of(entries: list[Entry], code: str) -> str:
    """The first reason with that code."""
    found = (r.text for entry in entries if entry.decision for r in entry.decision.reasons if r.code == code)
    return next(found)


def rescales(entries: list[Entry]) -> list[list[str]]:
    """Changes of parallelism, decision by decision."""
    found = (
        [str(action) for action in entry.decision.actions if isinstance(action, SetParallelism)]
        for entry in entries
        if entry.decision
    )
    return [asked for asked in found if asked]
