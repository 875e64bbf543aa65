"""The pool keeper, against a watcher and a context that only remember: gates are never left closed."""

from __future__ import annotations

import pytest

from tidegate.adapters.spark import executors
from tidegate.adapters.spark.executors import ExecutorPoolKeeper, retirees
from tidegate.domain import ExecutorSample, Outcome
from tidegate.domain.emptying import Emptying


class Queries:
    """Queries that are in a batch until told otherwise."""

    def __init__(self) -> None:
        self.in_batch, self.held = True, False
        self.partitions, self.moving = 0, False

    def between_batches(self) -> bool:
        return not self.in_batch

    def hold_batches(self) -> None:
        self.held = True

    def resume_batches(self) -> None:
        self.held = False

    def state_on(self, executors: set[str]) -> tuple[int, bool]:
        return self.partitions, self.moving


class Manager:
    """Registered executors, and what is asked of the cluster manager."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.registered = tuple(ExecutorSample(str(number), "h", 2, 0, float(number)) for number in range(count))
        self.asked: list[int] = []
        self.killed: list[str] = []
        self.takes_requests = True
        monkeypatch.setattr(executors, "request_executors", self._request)
        monkeypatch.setattr(executors, "retire_executors", lambda sc, ids, target: self.killed.extend(ids))

    def executors(self) -> tuple[ExecutorSample, ...]:
        return self.registered

    def _request(self, sc: object, target: int) -> bool:
        self.asked.append(target)
        return self.takes_requests


def keeper(manager: Manager) -> ExecutorPoolKeeper:
    made = object.__new__(ExecutorPoolKeeper)
    made._memory_bytes = 1024**3
    made._sc, made._watcher, made.scalable = None, manager, True  # type: ignore[assignment]
    made._target, made._surplus_since_s, made._leaving = None, None, set()
    made._retiring, made._emptying, made._rehearsals, made._slots = set(), Emptying(), None, 0
    return made


def test_a_shrink_that_is_overtaken_by_growth_leaves_no_gate_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(monkeypatch, 3)
    pool, queries = keeper(manager), Queries()
    pool.converge(2, queries)
    assert queries.held, "a gap is asked for while a batch runs"
    pool.converge(4, queries)
    assert not queries.held


def test_executors_go_in_the_gap_and_are_not_chosen_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(monkeypatch, 3)
    pool, queries = keeper(manager), Queries()
    pool.converge(2, queries)
    assert not manager.killed
    queries.in_batch = False
    pool.converge(2, queries)
    pool.converge(2, queries)
    assert manager.killed == ["2"], "the youngest, once, though it is still listed"
    assert not queries.held


def test_a_request_that_is_not_taken_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(monkeypatch, 1)
    manager.takes_requests = False
    pool, queries = keeper(manager), Queries()
    refused = pool.converge(2, queries)
    assert refused is not None
    assert refused.outcome is Outcome.FAILED
    assert pool.sample(manager.executors()).requested == 1


def test_idle_executors_go_before_busy_ones() -> None:
    busy, idle = ExecutorSample("1", "h", 2, 2, 5.0), ExecutorSample("2", "h", 2, 0, 1.0)
    assert retirees((busy, idle), 1) == [idle]


def test_an_executor_that_holds_state_goes_when_it_has_been_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(monkeypatch, 3)
    pool, queries = keeper(manager), Queries()
    queries.in_batch, queries.partitions = False, 4
    pool.converge(2, queries)
    assert [one.id for one in pool.sample(manager.executors()).executors if one.retiring] == ["2"]
    queries.moving = True
    pool.converge(2, queries)
    queries.partitions, queries.moving = 2, False
    for _ in range(3):  # moves come in waves
        pool.converge(2, queries)
    assert not manager.killed
    assert not queries.held, "batches go on while state moves"
    queries.partitions = 0
    pool.converge(2, queries)
    assert manager.killed == ["2"]


def test_an_executor_that_nobody_empties_goes_in_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(monkeypatch, 2)
    pool, queries = keeper(manager), Queries()
    queries.in_batch, queries.partitions = False, 4
    pool.converge(1, queries)
    assert not manager.killed
    pool.converge(1, queries)
    assert manager.killed == ["1"]


def test_growth_keeps_the_executors_that_were_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(monkeypatch, 3)
    pool, queries = keeper(manager), Queries()
    queries.partitions = 4
    pool.converge(1, queries)
    assert sum(one.retiring for one in pool.sample(manager.executors()).executors) == 2
    pool.converge(3, queries)
    assert not any(one.retiring for one in pool.sample(manager.executors()).executors)
