"""What the batches of an application cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchCost:
    """Slot-seconds of tasks per batch and per row, and seconds of a batch in which no task runs."""

    batch_s: float
    row_s: float
    overhead_s: float
