"""Reasons: the first one is that of what was done, and the numbers in them add up."""

from __future__ import annotations

import re

import pytest

from tests.core.worlds import simulated
from tidegate.control.journal import Entry
from tidegate.domain import MoveState, Reason, ScaleExecutors, SetAdmission, SetParallelism
from tidegate.domain.cost import BatchCost
from tidegate.domain.decision import Held, Proposal
from tidegate.domain.objective import Objective
from tidegate.domain.policy import Policy
from tidegate.evaluate.workload import Workload
from tidegate.load import Burst
from tidegate.plan.mainreason import main_first
from tidegate.plan.planner import Plan
from tidegate.plan.tuning import LongRun

POLICY = Policy.model_validate({"objective": {"latency_s": 8}, "executors": {"min": 1, "max": 6}})
SUM = re.compile(
    r"needs (?P<total>[\d.]+) slots \((?P<rate>\d+) rows/s at (?P<row_ms>[\d.]+) ms"
    r"(?: = (?P<rows>[\d.]+), plus (?P<fixed>[\d.]+))?"
)


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    """A job that has to grow and may shrink again."""
    load = Burst(base=300, peak=1500, start_s=40, duration_s=60)
    return simulated(load, POLICY, until_s=160)[1]


def test_the_first_reason_of_a_step_that_scales_is_why_it_scales(entries: list[Entry]) -> None:
    scaled = [
        entry.decision
        for entry in entries
        if entry.decision and any(isinstance(action, ScaleExecutors) for action in entry.decision.actions)
    ]
    assert scaled
    for decision in scaled:
        assert decision.reasons[0].code.startswith(("grow", "shrink")), decision.reasons


def test_a_quiet_step_says_first_whether_the_load_fits(entries: list[Entry]) -> None:
    quiet = [entry.decision.reasons[0] for entry in entries if entry.decision and entry.decision.holds]
    assert any(reason.code == "hold-fits" and "needs" in reason.text for reason in quiet)


def test_the_numbers_of_a_pool_reason_add_up(entries: list[Entry]) -> None:
    texts = [reason.text for entry in entries if entry.decision for reason in entry.decision.reasons]
    sums = [found for found in map(SUM.search, texts) if found]
    assert len(sums) > 50
    for found in sums:
        total, rate, row_ms = (float(found[name]) for name in ("total", "rate", "row_ms"))
        rows = float(found["rows"]) if found["rows"] else total
        assert rows == pytest.approx(rate * row_ms / 1e3, abs=0.06 + 0.5 * row_ms / 1e3 + 0.005 * rate / 1e3)
        assert rows + float(found["fixed"] or 0.0) == pytest.approx(total, abs=1e-6)


def test_advice_adds_up_too() -> None:
    workload = Workload(100.0, 100.0, BatchCost(0.4, 0.00221, 0.3), 8, 0.0, 1.0, 14.0)
    outlook = LongRun("app", workload, 0.0, 1.0, Objective(2.0), None, slots=4.0, slots_now=1.0, others=0.0)
    account = outlook.account(4.0)
    assert account == "4.0 slots to meet 2 s (100 rows/s at 2.21 ms = 0.2, plus 3.8 so that batches end in time)"


def test_a_restart_outranks_executors_and_those_a_limit_and_what_is_held_comes_after() -> None:
    proposals = tuple(
        Proposal(action, Reason(code, code))
        for action, code in (
            (MoveState("app", 0, "1"), "move"),
            (SetAdmission("app", 10), "limit"),
            (ScaleExecutors(3), "grow"),
            (SetParallelism("app", "split", 4), "rescale"),
        )
    )
    plan = Plan(proposals, (Reason("hold-fits", "the load fits"),))
    restart = proposals[3].action
    done = tuple(proposal.action for proposal in proposals[:3])
    held = (Held("cool-down", restart, Reason("cool-down", "wait 5 s more")),)
    assert [each.code for each in main_first(plan, done, held)] == ["grow", "limit", "move", "rescale", "hold-fits"]
    every = (*done, restart)
    assert [each.code for each in main_first(plan, every, ())] == ["rescale", "grow", "limit", "move", "hold-fits"]
