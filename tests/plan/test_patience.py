"""Rows may queue within a long objective; who has a short one is served at once."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.evaluate.table import Floats
from tidegate.load import Burst
from tidegate.plan.patience import burst_path


@pytest.mark.parametrize(
    ("past", "waiting_rows", "uncounted_s", "lasts"),
    [
        (np.zeros(0), 5000.0, 0.0, 9),  # nothing is known: it lasts
        (np.full(20, 100.0), 0.0, 0.0, 0),  # all of it is done
        (np.full(20, 100.0), 2800.0, 9.0, 0),  # it was over before anyone could count again
        (np.append(np.full(20, 100.0), 800.0), 9000.0, 0.0, 5),  # two steps old, and as long again
    ],
)
def test_how_long_a_burst_is_expected_to_last(
    past: Floats, waiting_rows: float, uncounted_s: float, lasts: int
) -> None:
    path = burst_path(past, 800.0, waiting_rows, uncounted_s, steps=9)
    assert (path == 800.0).sum() == lasts


def grown(objective_s: float) -> list[int]:
    """Sizes asked for around a burst of ten seconds that two slots work off in fifty."""
    job = SimApplication("job", Burst(40.0, 400.0, 60.0, 10.0), operators=(SimOperator("work", 0.02),))
    cluster, journal = SimCluster([job], executors=1, slots_per_executor=2, seed=1), MemoryJournal()
    policy = Policy.model_validate({"objective": {"latency_s": objective_s}, "executors": {"max": 6}})
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=150.0)
    decisions = [entry.decision for entry in journal.entries if entry.decision and entry.time_s >= 60]
    return [action.target for one in decisions for action in one.actions if isinstance(action, ScaleExecutors)]


def test_a_burst_is_not_bought_for_where_rows_may_queue() -> None:
    assert max(grown(240.0), default=1) < max(grown(10.0))


@pytest.mark.parametrize("objective_s", [10.0])
def test_a_short_objective_cannot_wait(objective_s: float) -> None:
    assert max(grown(objective_s)) >= 4


def test_of_equally_patient_applications_the_first_is_named() -> None:
    """In the order of the applications, whatever order a set of their names would have in this process."""
    jobs = [
        SimApplication(name, Burst(40.0, 200.0, 60.0, 10.0), operators=(SimOperator("work", 0.004),))
        for name in ("flow", "tide", "surge", "ebb", "swell", "wave")
    ]
    cluster, journal = SimCluster(jobs, executors=1, slots_per_executor=2, seed=1), MemoryJournal()
    policy = Policy.model_validate({"objective": {"latency_s": 240.0}, "executors": {"max": 6}})
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=100.0)
    reasons = [reason for entry in journal.entries if entry.decision for reason in entry.decision.reasons]
    waiting = {reason.text.rpartition("because ")[2] for reason in reasons if reason.code == "queue"}
    first = {f"rows of {name} can wait within their objective of 240 s" for name in ("flow", "tide")}
    assert waiting == first, "flow at first, and tide once flow does not need the growth any more"


def test_a_burst_that_no_pool_could_follow_is_waited_out_where_rows_may_wait() -> None:
    """All its rows arrive within a second. Counted on as a new level, it would need more than the largest pool."""
    job = SimApplication("job", Burst(40.0, 6000.0, 60.0, 1.0), operators=(SimOperator("work", 0.01),))
    cluster, journal = SimCluster([job], executors=1, slots_per_executor=2, seed=1), MemoryJournal()
    policy = Policy.model_validate({"objective": {"latency_s": 240.0}, "executors": {"max": 4}})
    Runner(cluster, Controller(policy), cluster.clock, journal, journal).run(until_s=120.0)
    decisions = [entry.decision for entry in journal.entries if entry.decision]
    assert not [action for one in decisions for action in one.actions if isinstance(action, ScaleExecutors)]
    assert cluster.violation_rate("job", 240.0) == 0.0
