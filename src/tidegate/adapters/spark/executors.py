"""The executors of a live Spark context: how to change their number, and the keeper that holds them at the target.

The keeper requests at once, retires between batches, and repeats until the target is reached.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.adapters.spark.warmup import REHEARSAL_S, Rehearsals
from tidegate.adapters.spark.watcher import Watcher
from tidegate.domain import (
    ActionReceipt,
    EnvironmentUnfit,
    ExecutorPool,
    ExecutorSample,
    InvalidInput,
    Outcome,
    ScaleExecutors,
)
from tidegate.domain.capability import Capability
from tidegate.domain.emptying import Emptying
from tidegate.domain.policy import Policy

_GAP_WAIT_S = 0.6
_POLL_S = 0.01
_PATIENCE_S = 10.0
_SETTLE_POLL_S = 0.25
_STARTING_S, _LATE_S = 60.0, 2.0
"""How long an embedded cluster takes to start its executors at most, and how far apart they may register."""


class QueriesOnPool(Protocol):
    """What the keeper needs to know about the queries on the pool."""

    def between_batches(self) -> bool: ...

    def hold_batches(self) -> None: ...

    def resume_batches(self) -> None: ...

    def state_on(self, executors: set[str]) -> tuple[int, bool]:
        """Movable state partitions on these executors, and whether any are being moved now."""
        ...


class ExecutorPoolKeeper:
    """Drives the pool to its target, and keeps requested and registered executors apart."""

    def __init__(
        self,
        sc: SparkContext,
        watcher: Watcher,
        policy: Policy,
        may_act: bool,
        rehearsals: Rehearsals | None = None,
    ) -> None:
        """`rehearsals`: warms new executors before they get tasks."""
        self._sc = sc
        self._watcher = watcher
        self._target: int | None = None
        self._surplus_since_s: float | None = None
        self._leaving: set[str] = set()
        """Killed, but still listed for a moment."""
        self._retiring: set[str] = set()
        """Selected to be retired; waiting to be emptied, or for a pause between batches."""
        self._emptying = Emptying()
        self.scalable = not sc._jsc.sc().isLocal()
        self._memory_bytes = memory_bytes(sc)
        self._taken_over = False
        self._rehearsals = rehearsals
        self._slots = 0
        """Of the largest executor that has registered."""
        if may_act and dynamic_allocation(sc) and policy.dynamic_allocation == "refuse":
            raise InvalidInput(
                "Spark's dynamic allocation controls the executors of this job; disable it "
                "(spark.dynamicAllocation.enabled=false), or set dynamic_allocation: take-over in the policy"
            )

    def capability(self) -> Capability:
        """Can the number of executors change?"""
        if not self.scalable:
            return Capability("executors", False, "a local master has only one executor, in the driver")
        return Capability("executors", True, f"requested from {self._sc.master}, retired between batches")

    def sample(self, registered: tuple[ExecutorSample, ...]) -> ExecutorPool:
        self._slots = max((executor.slots for executor in registered), default=self._slots)
        requested = self._target if self._target is not None else len(registered)
        pool = ExecutorPool(self.marked(registered), requested, max(1, self._slots), self.scalable, self._memory_bytes)
        warm = self._rehearsals is not None and self._rehearsals.work({executor.id for executor in registered})
        return replace(pool, warmup_s=REHEARSAL_S) if warm else pool

    def marked(self, registered: tuple[ExecutorSample, ...]) -> tuple[ExecutorSample, ...]:
        """These executors, with those being retired marked."""
        going = self._retiring | self._leaving
        return tuple(replace(one, retiring=True) if one.id in going else one for one in registered)

    def take_charge(self) -> None:
        """From now on we control the pool: Spark's dynamic allocation is suspended, and new executors rehearse."""
        if self._rehearsals is not None and self._slots:
            self._rehearsals.offer_once(self._slots)
        if not self._taken_over and dynamic_allocation(self._sc):
            stop_dynamic_allocation(self._sc)
            self._taken_over = True

    def release(self) -> None:
        """Restore the original state, except that the executors stay."""
        if self._taken_over:
            self._taken_over = False
            start_dynamic_allocation(self._sc)
        self._target = None
        self._retiring.clear()
        if self._rehearsals is not None:
            self._rehearsals.withdraw()

    def converge(self, target: int, batches: QueriesOnPool) -> ActionReceipt | None:
        """Drive the pool to the target; None if it is already reached."""
        action = ScaleExecutors(target)
        if not self.scalable:
            return ActionReceipt(action, Outcome.REFUSED, "a local master has only one executor, in the driver")
        news = target != self._target
        if news:
            if not request_executors(self._sc, target):
                return ActionReceipt(action, Outcome.FAILED, "the cluster manager did not accept the request")
            self._target = target
        registered = self._watcher.executors()
        self._retire(registered, target, batches)
        if len(registered) == target:
            return ActionReceipt(action, Outcome.DONE) if news else None
        return ActionReceipt(action, Outcome.UNDER_WAY, f"{len(registered)} of {target} registered")

    def _retire(self, registered: tuple[ExecutorSample, ...], target: int, batches: QueriesOnPool) -> None:
        """Retire the executors above the target once they hold no state, in a pause between batches.

        Queries with gates are asked to pause; otherwise we wait for a pause. If no state leaves, we stop waiting.
        """
        self._leaving &= {executor.id for executor in registered}
        staying = tuple(executor for executor in registered if executor.id not in self._leaving)
        surplus = len(staying) - target
        self._choose(staying, surplus)
        if surplus <= 0:
            self._surplus_since_s = None
            batches.resume_batches()
            return
        if self._emptying.wait(*batches.state_on(self._retiring)):
            return
        now_s = time.monotonic()
        self._surplus_since_s = self._surplus_since_s or now_s
        batches.hold_batches()
        patient = now_s - self._surplus_since_s < _PATIENCE_S
        if patient and not _gap(batches):
            return  # a batch is running; the next round tries again
        try:
            retire_executors(self._sc, sorted(self._retiring), target)
            self._leaving |= self._retiring
            self._retiring = set()
        finally:
            self._surplus_since_s = None
            batches.resume_batches()

    def _choose(self, staying: tuple[ExecutorSample, ...], surplus: int) -> None:
        """Choose the executors to retire once, because their state starts to leave them."""
        going = [executor for executor in staying if executor.id in self._retiring][: max(0, surplus)]
        others = tuple(executor for executor in staying if executor not in going)
        chosen = {executor.id for executor in (*going, *retirees(others, surplus - len(going)))}
        if chosen != self._retiring:
            self._retiring, self._emptying = chosen, Emptying()


def retirees(registered: tuple[ExecutorSample, ...], surplus: int) -> list[ExecutorSample]:
    """The executors to retire: idle before busy, then the youngest, whose caches are the coldest."""
    return sorted(registered, key=lambda executor: (executor.active_tasks, -executor.since_s))[: max(0, surplus)]


def _gap(batches: QueriesOnPool) -> bool:
    """Wait briefly for a moment between batches."""
    deadline_s = time.monotonic() + _GAP_WAIT_S
    while not batches.between_batches():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def settle_executors(spark: SparkSession, target: int, limit_s: float = 180.0) -> None:
    """Wait until exactly `target` executors are registered. Standalone first starts as many as it can, and some of
    them may register a little later than the others.

    On a slow machine a killed executor stays registered for seconds. It must not be counted as one that stays: the
    others would be killed as surplus, and new ones would be started for them, for ever.
    """
    sc, watcher = spark.sparkContext, Watcher(spark)
    request_executors(sc, target)
    leaving: set[str] = set()
    deadline_s = time.monotonic() + limit_s
    steady_s = _LATE_S if _just_started(sc) and _embedded_executors(sc) > target else 0.0
    settled_s: float | None = None
    while True:
        registered, now_s = watcher.executors(), time.monotonic()
        settled_s = (settled_s or now_s) if len(registered) == target else None
        if settled_s is not None and now_s - settled_s >= steady_s:
            return
        if now_s > deadline_s:
            raise EnvironmentUnfit(
                f"requested {target} executors, but {len(registered)} are registered after {limit_s:.0f} s"
            )
        staying = tuple(executor for executor in registered if executor.id not in leaving)
        if len(staying) > target:
            surplus = [executor.id for executor in retirees(staying, len(staying) - target)]
            retire_executors(sc, surplus, target)
            leaving.update(surplus)
        time.sleep(_SETTLE_POLL_S)


def _just_started(sc: SparkContext) -> bool:
    return bool(time.time() - _scala_context(sc).startTime() / 1000 < _STARTING_S)


def _embedded_executors(sc: SparkContext) -> int:
    """How many executors an embedded cluster starts by itself; 0 for others.

    >>> from types import SimpleNamespace
    >>> [_embedded_executors(SimpleNamespace(master=name)) for name in ("local-cluster[3,2,1024]", "yarn")]
    [3, 0]
    """
    found = re.match(r"local-cluster\[\s*(\d+)", sc.master or "")
    return int(found[1]) if found else 0


def request_executors(sc: SparkContext, target: int) -> bool:
    """Request `target` executors in total from the cluster manager. True if it accepted the request."""
    no_locality = sc._jvm.PythonUtils.toScalaMap({})  # type: ignore[union-attr]
    return bool(_scala_context(sc).requestTotalExecutors(target, 0, no_locality))


def retire_executors(sc: SparkContext, ids: list[str], target: int) -> None:
    """Kill these executors, then request the target again: a kill lowers it, and a crash would not be replaced."""
    for executor_id in ids:
        _scala_context(sc).killExecutor(executor_id)
    request_executors(sc, target)


def memory_bytes(sc: SparkContext) -> int:
    """Heap of an executor; with a local master, that of the driver."""
    name = "spark.driver.memory" if _scala_context(sc).isLocal() else "spark.executor.memory"
    return int(_scala_context(sc).conf().getSizeAsBytes(name, "1g"))


def works_on_this_machine(sc: SparkContext) -> bool:
    """Do executors run on the driver's machine? In the driver itself, or as processes beside it."""
    return (sc.master or "").startswith("local")


def dynamic_allocation(sc: SparkContext) -> bool:
    """Does Spark's dynamic allocation control the pool?"""
    return bool(_scala_context(sc).executorAllocationManager().isDefined())


def stop_dynamic_allocation(sc: SparkContext) -> None:
    """Take over the pool from Spark's dynamic allocation: its schedule stops, the executors stay."""
    manager = _scala_context(sc).executorAllocationManager()
    if manager.isDefined():
        manager.get().stop()


def start_dynamic_allocation(sc: SparkContext) -> None:
    """Return the pool to Spark's dynamic allocation after it was taken over."""
    manager = _scala_context(sc).executorAllocationManager()
    if manager.isDefined():
        manager.get().start()


def _scala_context(sc: SparkContext) -> Any:
    return sc._jsc.sc()
