"""What keeps the pool from shrinking although fewer executors have been enough for long: a limit, or a coming peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.core.worlds import application, batch, pool
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import LatencySample, Observation, ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.evaluate.expected import ArrivalPath, Expected
from tidegate.evaluate.forecast.arrivals import ArrivalForecaster
from tidegate.load import Burst
from tidegate.plan.planner import Plan
from tidegate.plan.pool import PoolSize

POLICY = Policy.model_validate({"objective": {"latency_s": 20}, "executors": {"min": 1, "max": 4}})
ROWS = 200
"""A second's rows, which keep one of the four slots of an executor busy."""
LATENCY = LatencySample(ROWS, 0.6, 0.9, 1.1, 1.2)


class Foreseen(Expected):
    """A trusted forecast: the usual rate, and a peak in two minutes."""

    def __init__(self, peak_rows_per_s: float) -> None:
        super().__init__(ArrivalForecaster(), applications=1)
        mean = np.full(180, float(ROWS))
        mean[24:48] = peak_rows_per_s
        self._path = ArrivalPath(5.0, mean, mean, mean, trusted=True)

    def path(self, place: int) -> ArrivalPath:
        return self._path


def evaluations(backlog_rows: int = 0, peak_rows_per_s: float = ROWS, **changes: Any) -> Iterator[Evaluation]:
    """Four executors for five minutes, where one would do."""
    evaluator = Evaluator(POLICY, EvaluationMemory())
    for step in range(300):
        done = batch(step, 1000.0 + step, ROWS, latency=LATENCY, backlog_rows=backlog_rows)
        sample = application((done,), in_batch=False, gated=True, **changes)
        evaluation = evaluator.evaluate(Observation(1000.6 + step, (sample,), pool(4)))
        yield replace(evaluation, expected=Foreseen(peak_rows_per_s))


def first_after_watching(evaluations: Iterator[Evaluation]) -> Plan:
    """The first plan that is not about whether fewer executors have been enough for long enough."""
    proposer, codes = PoolSize(), list[str]()
    for evaluation in evaluations:
        proposer.watch(evaluation)
        plan = proposer.propose(evaluation)
        codes.append(plan.reasons[0].code)
        if "hold-watching" in codes and codes[-1] != "hold-watching":
            return plan
    raise AssertionError(f"the pool was only watched: {set(codes)}")


def told(plan: Plan) -> tuple[str, list[int]]:
    """Why, and the sizes proposed."""
    targets = [each.action.target for each in plan.proposals if isinstance(each.action, ScaleExecutors)]
    return plan.reasons[0].code, targets


def test_without_a_limit_or_a_peak_it_shrinks() -> None:
    assert told(first_after_watching(evaluations())) == ("shrink", [1])


def test_it_does_not_shrink_while_an_admission_limit_holds_rows_back() -> None:
    """What the limit holds back would need the executors if it were lifted."""
    plan = first_after_watching(evaluations(backlog_rows=ROWS, admission_rows=ROWS))
    assert told(plan) == ("hold-limited", [])
    assert plan.reasons[0].text == "an admission limit holds back rows of app: not shrinking"


def test_a_limit_that_holds_nothing_back_does_not_matter() -> None:
    assert told(first_after_watching(evaluations(admission_rows=10 * ROWS))) == ("shrink", [1])


def test_it_does_not_shrink_before_a_peak_that_needs_the_executors() -> None:
    plan = first_after_watching(evaluations(peak_rows_per_s=3000))
    assert told(plan) == ("hold-peak", [])
    assert "a peak that needs 4 executors is expected: not shrinking before it" in plan.reasons[0].text


def test_it_shrinks_to_what_the_peak_needs() -> None:
    assert told(first_after_watching(evaluations(peak_rows_per_s=1400))) == ("shrink", [2])


def test_executors_that_do_not_relieve_a_bottleneck_are_given_back() -> None:
    """One task has twice the work that it can do, and the query cannot be restarted. Its limit on batches binds all the
    time, and more slots make other stages a little faster; neither is a reason to keep executors."""
    operators = (SimOperator("lines", 0.0002, parallelism=1), SimOperator("work", 0.01, parallelism=1))
    load = Burst(50.0, 200.0, start_s=60.0, duration_s=300.0)
    job = SimApplication(
        "job", load, operators=(*operators, SimOperator("count", 0.0005, parallelism=4)), restartable=False
    )
    cluster, journal = SimCluster([job], executors=1, slots_per_executor=2, seed=1), MemoryJournal()
    policy = Policy.model_validate({"objective": {"latency_s": 30.0}, "executors": {"max": 6}})
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=300.0)
    requested = {
        round(entry.time_s): entry.observation.pool.requested for entry in journal.entries if entry.observation
    }
    assert {requested[at] for at in range(200, 300)} == {1}
    assert cluster.violation_rate("job", 30.0) > 0.5
