"""The pool keeps what recent bursts would have needed, and no more."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.knowledge import Knowledge
from tidegate.control.runner import Runner
from tidegate.domain import ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.load import Steps
from tidegate.plan.hindsight import LASTS_S
from tidegate.plan.pool import PoolMemory

MOST = 12


@cache
def played(rates: tuple[float, ...], objective_s: float = 15.0, **changes: Any) -> tuple[MemoryJournal, Controller]:
    """Rates in rows per second, each for ten seconds; a row takes 10 ms on one of two slots."""
    load = Steps(rates=rates, step_s=10.0)
    job = SimApplication("job", load, operators=(SimOperator("work", 0.01, parallelism=64),))
    values = {"executors": 1, "slots_per_executor": 2, "startup_s": 20.0, "warmup_s": 20.0, "seed": 1} | changes
    cluster, journal = SimCluster([job], max_executors=MOST, **values), MemoryJournal()
    policy = Policy.model_validate({"objective": {"latency_s": objective_s}, "executors": {"max": MOST}})
    controller = Controller(policy)
    Runner(cluster, controller, cluster.clock, journal, journal).run(until_s=10.0 * len(rates))
    return journal, controller


def sizes(journal: MemoryJournal, from_s: float = 0.0) -> list[int]:
    decisions = [entry.decision for entry in journal.entries if entry.decision and entry.time_s >= from_s]
    return [action.target for one in decisions for action in one.actions if isinstance(action, ScaleExecutors)]


def codes(journal: MemoryJournal) -> set[str]:
    return {reason.code for entry in journal.entries if entry.decision for reason in entry.decision.reasons}


def bursty(minutes: int) -> tuple[float, ...]:
    """A burst of 20 s every five minutes."""
    return ((80.0,) * 28 + (900.0,) * 2) * (minutes // 5)


def memory_of(controller: Controller) -> PoolMemory:
    found = controller.knowledge.parts["pool"]
    assert isinstance(found, PoolMemory)
    return found


@pytest.mark.slow
def test_executors_that_the_bursts_needed_stay_between_them() -> None:
    journal, controller = played(bursty(30))
    assert min(sizes(journal, from_s=600.0), default=MOST) >= 3
    keep = memory_of(controller).hindsight.keep
    assert keep is not None
    assert keep.size <= MOST


@pytest.mark.slow
def test_a_surprise_does_not_bind_for_ever() -> None:
    rates = (80.0,) * 28 + (900.0,) * 2 + (80.0,) * 300
    journal, controller = played(rates)
    assert memory_of(controller).hindsight.keep is None
    assert sizes(journal)[-1] == 1
    assert len(rates) * 10.0 > 300.0 + LASTS_S


@pytest.mark.slow
def test_where_rows_may_wait_for_executors_nothing_is_kept() -> None:
    journal, _ = played(bursty(15), objective_s=240.0)
    assert not {"hold-hindsight", "grow-hindsight"} & codes(journal)


def test_a_calm_load_is_not_asked_to_keep_anything() -> None:
    journal, controller = played((250.0,) * 60, executors=2)
    assert memory_of(controller).hindsight.keep is None
    assert not sizes(journal), "two executors carry it"


@pytest.mark.parametrize("rates", [bursty(10), (0.0,) * 20, (5000.0,) * 20], ids=["bursty", "idle", "full"])
def test_it_never_asks_for_more_than_is_allowed(rates: tuple[float, ...]) -> None:
    journal, _ = played(rates)
    assert all(1 <= size <= MOST for size in sizes(journal))


def test_it_is_saved_with_the_knowledge() -> None:
    _, controller = played(bursty(10))
    saved = Knowledge.from_bytes(controller.knowledge.to_bytes())
    assert saved is not None
    again = Controller(controller.policy, saved)
    assert memory_of(again).hindsight == memory_of(controller).hindsight
    assert memory_of(again).hindsight.keep is not None
