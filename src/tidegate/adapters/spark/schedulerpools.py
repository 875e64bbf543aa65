"""Fair-scheduler pools as shares of one Spark application's slots: set while queries run, and restored.

A pool's `weight` and `minShare` are plain fields that the scheduler reads at every offer. Weights alone have no effect
while there are fewer slots than pools, because every pool gets its first task before any gets a second. `minShare`
does: a pool below it is served before all others. A class therefore gets the slots of its share as `minShare`, and the
least important class gets none: it takes what the others leave, and they wait only for tasks that already run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

from tidegate.domain import ActionReceipt, Outcome, SetShare
from tidegate.domain.capability import Capability

POOL_PROPERTY = "spark.scheduler.pool"
_FULL_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class PoolSetting:
    """The two fields of a pool."""

    weight: int
    min_share: int


class SchedulerPools:
    """The pools of one Spark context, by name. A pool exists once a job has run in it; until then, we wait for it."""

    def __init__(self, sc: SparkContext, importance: Mapping[str, float]) -> None:
        """`importance`: the weight of every class. Pools are named after classes."""
        self._sc = sc
        self._importance = dict(importance)
        self._asked: dict[str, PoolSetting] = {}
        self._before: dict[str, PoolSetting] = {}

    def capability(self) -> Capability:
        """Pools need the fair scheduler, which is selected when Spark starts."""
        mode = str(self._sc.getConf().get("spark.scheduler.mode", "FIFO"))
        if mode.upper() != "FAIR":
            why = f"spark.scheduler.mode is {mode}; start Spark with FAIR to share one application among classes"
            return Capability("pools", False, why)
        return Capability("pools", True, "weight and minShare of the fair scheduler's pools, without a restart")

    def set_share(self, action: SetShare) -> ActionReceipt | None:
        """Set the share of a class's pool; None if it is already set."""
        able = self.capability()
        if not able.able:
            return ActionReceipt(action, Outcome.REFUSED, able.reason)
        slots = self._sc.defaultParallelism  # changes with the executors
        setting = pool_setting(action.group, action.share, self._importance, slots)
        if self._asked.get(action.group) == setting and self.in_force(action.group) == setting:
            return None
        self._asked[action.group] = setting
        missing = self.enforce()
        if action.group in missing:
            return ActionReceipt(action, Outcome.UNDER_WAY, "no job has run in its pool yet")
        return ActionReceipt(action, Outcome.DONE, "through its scheduler pool, without a restart")

    def enforce(self) -> list[str]:
        """Write the requested settings into every existing pool. Returns the names of pools that do not exist yet."""
        missing = []
        for name, asked in self._asked.items():
            pool = self._pool(name)
            if pool is None:
                missing.append(name)
                continue
            in_force = _read(pool)
            self._before.setdefault(name, in_force)
            if in_force != asked:
                _write(pool, asked)
        return missing

    def in_force(self, name: str) -> PoolSetting | None:
        """The current setting of a pool; None if it does not exist."""
        pool = self._pool(name)
        return None if pool is None else _read(pool)

    def restore(self) -> None:
        """Restore every pool to its original setting."""
        self._asked.clear()
        for name, setting in self._before.items():
            pool = self._pool(name)
            if pool is not None:
                _write(pool, setting)
        self._before.clear()

    def _pool(self, name: str) -> Any | None:
        context = self._sc._jsc.sc()
        found = context.getPoolForName(name)
        return found.get() if found.isDefined() else None


def pool_setting(group: str, share: float, importance: Mapping[str, float], slots: int) -> PoolSetting:
    """A share of the slots as the fields of a pool.

    >>> importance = {"q1": 6, "q2": 3, "q3": 1}
    >>> pool_setting("q1", 0.6, importance, slots=2), pool_setting("q3", 0.6, importance, slots=2)
    (PoolSetting(weight=60, min_share=2), PoolSetting(weight=60, min_share=0))
    """
    least = importance.get(group, 1.0) <= min(importance.values(), default=1.0)
    return PoolSetting(max(1, round(_FULL_WEIGHT * share)), 0 if least else max(1, math.ceil(share * slots - 1e-9)))


@contextmanager
def in_pool(sc: SparkContext, name: str | None) -> Iterator[None]:
    """Queries started inside run their batches in this pool, for their whole life."""
    before = sc.getLocalProperty(POOL_PROPERTY)
    _set_property(sc, name)
    try:
        yield
    finally:
        _set_property(sc, before)


def _set_property(sc: SparkContext, pool: str | None) -> None:
    sc._jsc.setLocalProperty(POOL_PROPERTY, pool)  # None removes it; PySpark's own call is typed for text only


def _read(pool: Any) -> PoolSetting:
    return PoolSetting(int(pool.weight()), int(pool.minShare()))


def _write(pool: Any, setting: PoolSetting) -> None:
    # Fields without a setter; the scheduler reads them again at every offer.
    for name, value in (("weight", setting.weight), ("minShare", setting.min_share)):
        field = pool.getClass().getDeclaredField(name)
        field.setAccessible(True)
        field.setInt(pool, value)
