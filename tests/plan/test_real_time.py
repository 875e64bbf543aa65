"""Queries in real-time mode are watched, get a slot for every task, and are never limited nor judged by batches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tidegate.adapters.spark.applications import _new_run
from tidegate.adapters.spark.watcher import ActiveQuery
from tidegate.control.controller import Controller
from tidegate.domain import (
    ApplicationSample,
    Decision,
    ExecutorPool,
    ExecutorSample,
    Observation,
    RunningBatch,
    ScaleExecutors,
    SetAdmission,
)
from tidegate.domain.policy import Policy


def decide(tasks: int, most: int = 5, executors: int = 1, steps: int = 30) -> list[Decision]:
    """A query whose one long batch runs all the time, on executors of two slots."""
    policy = Policy.model_validate({"objective": {"latency_s": 5}, "executors": {"min": 1, "max": most}})
    controller = Controller(policy)
    there = tuple(ExecutorSample(str(number), "h", 2, 2, 0.0) for number in range(executors))
    pool = ExecutorPool(there, executors, 2)
    found = []
    for step in range(steps):
        now_s = 1000.0 + step
        batch = RunningBatch(1000.0, None, 0, tasks, tasks, 0.0, float(step * tasks), 0)
        sample = ApplicationSample("live", (), now_s, 300.0, gated=False, running_batch=batch, held_slots=tasks)
        found.append(controller.step(Observation(now_s, (sample,), pool)))
        for action in found[-1].actions:
            if isinstance(action, ScaleExecutors):
                pool = replace(pool, requested=action.target)
    return found


def test_the_pool_gets_a_slot_for_every_task_and_no_more() -> None:
    decisions = decide(tasks=7)
    targets = [action.target for one in decisions for action in one.actions if isinstance(action, ScaleExecutors)]
    assert targets[-1] == 4, "seven tasks on executors of two slots"
    first = next(one for one in decisions if one.actions)
    assert str(first.reasons[0]) == "real-time queries run 7 tasks at once: going from 1 to 4 executors"
    assert not any(isinstance(action, SetAdmission) for one in decisions for action in one.actions)


def test_a_pool_that_is_large_enough_is_left_alone() -> None:
    assert not any(one.actions for one in decide(tasks=4, executors=2))


def test_more_tasks_than_the_policy_allows_are_advised_on() -> None:
    (advice,) = decide(tasks=12, most=3)[-1].advice
    assert (advice.reason.code, advice.executors) == ("real-time-slots", 6)
    assert "12 tasks at once" in advice.reason.text


@pytest.mark.parametrize(
    ("trigger", "real_time"), [("RealTimeTrigger(300000)", True), ("ProcessingTimeTrigger(1000)", False)]
)
def test_the_trigger_tells_the_mode(trigger: str, real_time: bool) -> None:
    java = SimpleNamespace(trigger=lambda: SimpleNamespace(toString=lambda: trigger))
    assert _new_run(ActiveQuery("id", "run", "live", True), java).real_time is real_time
