"""Dynamic allocation that was taken over goes back to Spark however control ends."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.control.test_runner import POLICY, Ticking, World
from tidegate.adapters.spark import executors
from tidegate.adapters.spark.executors import ExecutorPoolKeeper
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import Receipt, Targets


class _Local:
    def isLocal(self) -> bool:  # noqa: N802
        return False


class _Context:
    class _jsc:  # noqa: N801
        @staticmethod
        def sc() -> _Local:
            return _Local()


class Pooled(World):
    """A world whose pool is Spark's own until somebody converges it."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        policy = POLICY.model_copy(update={"dynamic_allocation": "take-over"})
        self.pool = ExecutorPoolKeeper(cast(Any, _Context()), cast(Any, None), policy, may_act=True)

    def converge(self, targets: Targets) -> Receipt:
        self.pool.take_charge()
        return super().converge(targets)

    def release(self) -> None:
        super().release()
        self.pool.release()


@pytest.fixture
def allocation(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(executors, "dynamic_allocation", lambda sc: True)
    monkeypatch.setattr(executors, "memory_bytes", lambda sc: 2**30)
    monkeypatch.setattr(executors, "stop_dynamic_allocation", lambda sc: said.append("taken"))
    monkeypatch.setattr(executors, "start_dynamic_allocation", lambda sc: said.append("given back"))
    return said


@pytest.mark.parametrize("ending", ["stopped", "failing", "interrupted"])
def test_it_goes_back(allocation: list[str], ending: str) -> None:
    world, journal = Pooled(failing=range(3, 1000) if ending == "failing" else ()), MemoryJournal()
    runner = Runner(world, Controller(POLICY), Ticking(40), journal, journal)
    if ending == "interrupted":
        ticked = runner.tick

        def tick() -> None:
            ticked()
            raise KeyboardInterrupt

        runner.tick = tick  # type: ignore[method-assign, assignment]
    if ending == "stopped":
        runner.run()
    else:
        with pytest.raises(OSError if ending == "failing" else KeyboardInterrupt):
            runner.run()
    assert allocation == ["taken", "given back"]
