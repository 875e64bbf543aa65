"""Spark's dynamic allocation (`ExecutorAllocationManager` of Spark core).

If tasks have been pending for `backlog_timeout_s`, the target grows by 1, then 2, 4, 8 … executors, at most to what all
running and pending tasks could fill. Executors without tasks for `idle_timeout_s` are released. Defaults are Spark's
(`spark.dynamicAllocation.*`). On Spark the real one competes; this is its rule, for the simulator.
"""

from __future__ import annotations

import math

from tidegate_lab.arena.rivals.measures import Measures
from tidegate_lab.arena.rivals.rival import Rival


class DynamicAllocation(Rival):
    """Pending tasks add executors; idle executors are released."""

    name = "spark-dra"
    period_s = 1.0

    def __init__(self, backlog_timeout_s: float = 1.0, idle_timeout_s: float = 60.0) -> None:
        super().__init__()
        self.backlog_timeout_s, self.idle_timeout_s = backlog_timeout_s, idle_timeout_s
        self._to_add = 1
        self._pending_since_s: float | None = None
        self._worked_s: dict[str, float] = {}

    def wish(self, now: Measures) -> tuple[int, str] | None:
        slots = now.executors * now.slots_per_executor
        pending = now.tasks_left - slots
        for executor in now.ids:
            if executor in now.active or executor not in self._worked_s:
                self._worked_s[executor] = now.time_s
        self._worked_s = {executor: self._worked_s[executor] for executor in now.ids}
        if pending > 0:
            return self._grow(now)
        self._pending_since_s, self._to_add = None, 1
        idle = [since_s for since_s in self._worked_s.values() if now.time_s - since_s >= self.idle_timeout_s]
        return (now.executors - len(idle), f"{len(idle)} idle for {self.idle_timeout_s:g} s") if idle else None

    def _grow(self, now: Measures) -> tuple[int, str] | None:
        if self._pending_since_s is None:
            self._pending_since_s = now.time_s
            return None
        if now.time_s - self._pending_since_s < self.backlog_timeout_s:
            return None
        self._pending_since_s = now.time_s
        useful = math.ceil(now.tasks_left / now.slots_per_executor)
        wanted = min(max(useful, now.requested), now.requested + self._to_add)
        # the step doubles only if it was fully used, otherwise it restarts at one
        self._to_add = self._to_add * 2 if wanted - now.requested == self._to_add else 1
        return wanted, f"{now.tasks_left} tasks wait"
