"""The driver: planning, offsets, logs and task launches of every batch, on CPUs shared by all queries of a context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidegate.adapters.sim.contention import crowding
from tidegate.adapters.sim.lanes import Lane, Part

Owner = TypeVar("Owner")


@dataclass(slots=True)
class SimDriver(Generic[Owner]):
    """Runs the overhead of batches. Without a limit on its CPUs, batches do not slow each other down.

    >>> driver: SimDriver[str] = SimDriver(cpus=2.0)
    >>> for query in range(9):  # nine aggregations of 0.4 CPU-seconds a batch
    ...     driver.begin(f"q{query}", overhead_s=0.4, cpu_s=0.4)
    >>> driver.divide()
    >>> [round(lane.next_end_s(0.0), 6) for lane in driver.lanes.values()]
    [1.8]
    """

    cpus: float | None = None
    lanes: dict[float, Lane[Owner]] = field(default_factory=dict)
    changed: bool = True
    """Whether a batch has begun or ended its overhead since the CPUs were divided."""

    def begin(self, owner: Owner, overhead_s: float, cpu_s: float) -> None:
        """Begin the overhead of a batch: `overhead_s` long on a free driver, with `cpu_s` CPU-seconds in it."""
        busy = cpu_s / overhead_s if self.cpus is not None and overhead_s > 0 else 0.0
        ask, cpu_share = max(1.0, busy), min(1.0, round(busy, 9))
        lane = self.lanes.get(cpu_share)
        if lane is None:
            lane = self.lanes[cpu_share] = Lane(cpu_share)
        Part(owner, overhead_s * ask, ask).enter(lane, overhead_s * ask)
        self.changed = True

    def divide(self) -> None:
        """Set the pace of every overhead in progress."""
        self.changed = False
        self.lanes = {share: lane for share, lane in self.lanes.items() if lane.parts}
        longer = 1.0
        if self.cpus is not None:
            longer = crowding(self.cpus, [(lane.asked, lane.cpu_share) for lane in self.lanes.values()])
        for lane in self.lanes.values():
            lane.pace = 1 / ((1 - lane.cpu_share) + lane.cpu_share * longer)
