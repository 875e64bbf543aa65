"""What `batch_latency` measures: workloads, executors, rows per batch, and rates on the way into congestion."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain import InvalidInput
from tidegate_lab.workloads.intensive import CpuIntensive, MemoryIntensive, NetworkIntensive
from tidegate_lab.workloads.wordcount import SplitCount, WordCount

WORKLOADS: dict[str, type[WordCount]] = {
    "wordcount": SplitCount,
    "cpu": CpuIntensive,
    "memory": MemoryIntensive,
    "network": NetworkIntensive,
}
PAPER_SIZES = (100, 200, 500, 1000, 2000, 5000, 10000, 15000, 20000, 21000, 22000, 23000, 24000, 25000)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. The defaults take some ten minutes on two cores."""

    executors: tuple[int, ...] = (1, 2, 3)
    rows_per_batch: tuple[int, ...] = (100, 1000, 5000, 25000)
    intensive_rows_per_batch: tuple[int, ...] = (500, 5000)
    workloads: tuple[str, ...] = tuple(WORKLOADS)
    fixed_tasks: bool = True
    """WordCount once more, up to `congestion_rows`, with 12 tasks per operator on any pool beside one task per slot."""
    slots: int = 1
    batches: int = 3
    """Warm batches of a cell, at least."""
    cell_s: float = 2.0
    """Small batches go on for so long."""
    warm_batches: int = 8
    congestion_executors: int = 2
    congestion_rows: int = 5000
    rates: tuple[float, ...] = (0.2, 0.5, 0.8, 1.0, 1.2)
    """Of the throughput of full batches of `congestion_rows`."""
    intensive_rates: tuple[float, ...] = (0.6, 1.2)
    rate_s: float = 14.0
    settle_s: float = 4.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.workloads) - set(WORKLOADS))
        if unknown or not self.workloads:
            raise InvalidInput(f"workload {(unknown or ['none'])[0]!r}: use {', '.join(WORKLOADS)}")
        if not self.executors or min(self.executors) < 1 or self.congestion_executors not in self.executors:
            raise InvalidInput("executors start at 1, and those of the congestion runs are among them")
        for sizes in (self.rows_per_batch, self.intensive_rows_per_batch):
            if not sizes or min(sizes) < 1 or self.congestion_rows not in sizes:
                raise InvalidInput("batches hold at least one row, and the size of the congestion runs is among them")

    def sizes(self, workload: str, tasks: str = "per-slot") -> tuple[int, ...]:
        chosen = self.rows_per_batch if workload == "wordcount" else self.intensive_rows_per_batch
        return tuple(sorted(rows for rows in chosen if tasks == "per-slot" or rows <= self.congestion_rows))

    def shares(self, workload: str) -> tuple[float, ...]:
        return self.rates if workload == "wordcount" else self.intensive_rates

    @property
    def steps(self) -> int:
        """Cells and rates, the repeated cell included."""
        sizes = [self.sizes(workload) for workload in self.workloads]
        if self.fixed_tasks and "wordcount" in self.workloads:
            sizes.append(self.sizes("wordcount", "fixed"))
        cells = len(self.executors) * sum(len(each) for each in sizes)
        return cells + sum(len(self.shares(workload)) for workload in self.workloads) + 1


FULL = Plan(executors=(1, 2, 3, 4, 5), rows_per_batch=PAPER_SIZES, rates=(0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2))
"""The paper's own grid; 25 minutes on two cores."""
QUICK = Plan(
    executors=(1, 2),
    rows_per_batch=(100, 2000),
    intensive_rows_per_batch=(2000,),
    fixed_tasks=False,
    batches=2,
    cell_s=0.5,
    warm_batches=3,
    congestion_rows=2000,
    rates=(0.4, 1.3),
    intensive_rates=(0.5,),
    rate_s=8.0,
    settle_s=2.0,
)

PLANS = {"default": Plan(), "full": FULL, "quick": QUICK}
