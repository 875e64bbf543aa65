"""Keeps the executor pool at its target: asked for at once, retired between batches, repeated until it is so."""

from __future__ import annotations

import time
from typing import Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.domain import (
    ActionReceipt,
    EnvironmentUnfit,
    ExecutorPool,
    ExecutorSample,
    InvalidInput,
    Outcome,
    ScaleExecutors,
)
from tidegate.domain.policy import Policy
from tidegate.spark import executors
from tidegate.spark.watcher import Watcher

_GAP_WAIT_S = 0.6
_POLL_S = 0.01
_PATIENCE_S = 10.0


class Batches(Protocol):
    """What the keeper needs to know of the queries on the pool."""

    def between_batches(self) -> bool: ...

    def hold_batches(self) -> None: ...

    def resume_batches(self) -> None: ...


class ExecutorPoolKeeper:
    """Drives the pool to its target: what the cluster manager has been asked for, apart from what is registered."""

    def __init__(self, sc: SparkContext, watcher: Watcher, policy: Policy, may_act: bool) -> None:
        self._sc = sc
        self._watcher = watcher
        self._target: int | None = None
        self._surplus_since_s: float | None = None
        self._leaving: set[str] = set()
        """Killed, and still listed for a moment."""
        self.scalable = not sc._jsc.sc().isLocal()
        if may_act and executors.dynamic_allocation(sc):
            if policy.dynamic_allocation == "refuse":
                raise InvalidInput(
                    "Spark's dynamic allocation rules the executors of this job; switch it off "
                    "(spark.dynamicAllocation.enabled=false), or set dynamic_allocation: take-over in the policy"
                )
            executors.stop_dynamic_allocation(sc)
        if may_act:
            executors.let_tasks_move(sc)

    def sample(self, registered: tuple[ExecutorSample, ...]) -> ExecutorPool:
        slots = max((executor.slots for executor in registered), default=1)
        requested = self._target if self._target is not None else len(registered)
        return ExecutorPool(registered, requested, slots, self.scalable)

    def scale(self, action: ScaleExecutors, batches: Batches) -> ActionReceipt:
        """Take a new target and do what can be done about it now."""
        if not self.scalable:
            return ActionReceipt(action, Outcome.REFUSED, "a local master has one executor, in the driver")
        if not executors.request_executors(self._sc, action.target):
            return ActionReceipt(action, Outcome.FAILED, "the cluster manager did not take the request")
        self._target = action.target
        self.converge(batches)
        reached = len(self._watcher.executors()) == action.target
        return ActionReceipt(action, Outcome.DONE if reached else Outcome.UNDER_WAY)

    def converge(self, batches: Batches) -> None:
        """Retire what is above the target, in a gap between batches: asked for where there are gates, else awaited."""
        if self._target is None:
            return
        registered = self._watcher.executors()
        self._leaving &= {executor.id for executor in registered}
        staying = tuple(executor for executor in registered if executor.id not in self._leaving)
        surplus = len(staying) - self._target
        if surplus <= 0:
            self._surplus_since_s = None
            batches.resume_batches()
            return
        now_s = time.monotonic()
        self._surplus_since_s = self._surplus_since_s or now_s
        batches.hold_batches()
        patient = now_s - self._surplus_since_s < _PATIENCE_S
        if patient and not _gap(batches):
            return  # a batch is under way; the next round looks again
        try:
            ids = [executor.id for executor in retirees(staying, surplus)]
            executors.retire_executors(self._sc, ids, self._target)
            self._leaving |= set(ids)
        finally:
            self._surplus_since_s = None
            batches.resume_batches()


def retirees(registered: tuple[ExecutorSample, ...], surplus: int) -> list[ExecutorSample]:
    """Who goes: the idle before the busy, and among them the youngest, whose caches are the coldest."""
    return sorted(registered, key=lambda executor: (executor.active_tasks, -executor.since_s))[:surplus]


def _gap(batches: Batches) -> bool:
    """Wait a little for a moment between batches."""
    deadline_s = time.monotonic() + _GAP_WAIT_S
    while not batches.between_batches():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def settle_executors(spark: SparkSession, target: int, limit_s: float = 60.0) -> None:
    """Have exactly `target` executors registered before going on; Standalone starts all it can at first."""
    sc, watcher = spark.sparkContext, Watcher(spark)
    executors.request_executors(sc, target)
    deadline_s = time.monotonic() + limit_s
    while len(registered := watcher.executors()) != target:
        if time.monotonic() > deadline_s:
            raise EnvironmentUnfit(f"{target} executors asked for, {len(registered)} registered after {limit_s:.0f} s")
        if len(registered) > target:
            leaving = retirees(registered, len(registered) - target)
            executors.retire_executors(sc, [executor.id for executor in leaving], target)
        time.sleep(0.5)
