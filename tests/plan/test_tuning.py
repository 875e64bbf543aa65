"""Advice counts what the pool may really get, and tells it from what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.domain import ExecutorPool, Objective
from tidegate.domain.cost import BatchCost
from tidegate.evaluate.workload import Workload
from tidegate.plan.tuning import LongRun, _options


def outlook(slots_now: float, rows_per_s: float = 130.0) -> LongRun:
    """1.3 slots of work, for which 1.5 are needed within 10 s; four slots are allowed."""
    workload = Workload(rows_per_s, rows_per_s, BatchCost(0.0, 0.01, 0.3), 8, 0.0, 1.0, 14.0)
    return LongRun("app", workload, 0.0, 1.0, Objective(10.0), None, slots=4.0, slots_now=slots_now, others=0.0)


@pytest.mark.parametrize(("slots_now", "code"), [(1.0, "add-executors"), (4.0, "relax-objective")])
def test_slots_that_are_allowed_but_not_there_are_what_it_lacks(slots_now: float, code: str) -> None:
    pool = ExecutorPool(executors=(), requested=1, slots_per_executor=1)
    (advice,) = _options(outlook(slots_now), pool)
    assert advice.reason.code == code
    assert ("more slots would not help" in advice.reason.text) == (slots_now == 4.0)


@pytest.mark.parametrize(("percentile", "advised"), [(0.99, ["relax-objective"]), (0.5, [])])
def test_a_tail_beyond_a_bound_for_the_median_gives_no_advice(percentile: float, advised: list[str]) -> None:
    pool = ExecutorPool(executors=(), requested=1, slots_per_executor=1)
    missed = replace(outlook(4.0), objective=Objective(10.0, percentile))
    assert [one.reason.code for one in _options(missed, pool)] == advised


def test_more_tasks_than_partitions_take_a_setting_of_the_job() -> None:
    pool = ExecutorPool(executors=(), requested=1, slots_per_executor=1)
    wide = outlook(4.0, rows_per_s=1500.0)
    (advice, *_) = _options(replace(wide, partitions=8), pool)
    assert "instead of 8 (there are 8 partitions: set minPartitions, or add an exchange after the source)" in str(
        advice
    )
    (advice, *_) = _options(replace(wide, partitions=40), pool)
    assert "minPartitions" not in str(advice)
