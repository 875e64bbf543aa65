"""How long one micro-batch takes: overhead, then its work in waves of tasks."""

from __future__ import annotations

from math import ceil

from tidegate.domain.cost import BatchCost


def batch_time(cost: BatchCost, rows: float, slots: float, tasks: int | None = None) -> float:
    """`T = o + (a + rows · s) / n`, where n slots are kept busy by equal tasks: `tasks / ⌈tasks / slots⌉`.

    >>> batch_time(BatchCost(batch_s=0.2, row_s=0.01, overhead_s=0.3), rows=180, slots=4)
    0.8
    >>> batch_time(BatchCost(batch_s=0.2, row_s=0.01, overhead_s=0.3), rows=180, slots=4, tasks=5)  # two waves
    1.1
    """
    if slots <= 0:
        return float("inf")
    busy = slots if tasks is None else tasks / ceil(tasks / slots - 1e-9)
    return cost.overhead_s + (cost.batch_s + rows * cost.row_s) / min(busy, slots)
