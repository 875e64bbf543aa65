"""Whether batch times follow equal waves of tasks, or whether slots stay busy to the end.

`k` equal tasks on `n` slots take `⌈k/n⌉` waves, so 32 tasks are no faster on 15 slots than on 11. If tasks differ a
lot, or take over each other's rows, the waves blur and every slot counts. Which of the two applies is measured: both
rules predict every batch, and waves are abandoned if batches are clearly better explained without them. Until then they
are assumed, which is the conservative choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from tidegate.domain.cost import BatchCost
from tidegate.model.batch import batch_time
from tidegate.model.slotpath import effective_slots_at

_APART = 1.05
"""Batches for which the rules differ by less say nothing about them."""
_LEAST_BATCHES = 30
_CLEARLY = 0.5
"""Waves are abandoned only if the squared error without them is at most this share of the error with them."""
_MEMORY = 50


@dataclass(slots=True)
class WavesMemory:
    """Running squared errors of both rules, in logarithms of the batch time."""

    batches: int = 0
    waves_error: float = 0.0
    blurred_error: float = 0.0

    @property
    def in_waves(self) -> bool:
        return self.batches < _LEAST_BATCHES or self.blurred_error > _CLEARLY * self.waves_error


@dataclass(frozen=True, slots=True)
class WarmBatch:
    """A batch on warm executors, and how long it took."""

    rows: float
    slots: float
    tasks: Sequence[int]
    """By operator."""
    work: Sequence[float]
    """By operator, in any unit."""
    measured_s: float


def learn(memory: WavesMemory, cost: BatchCost, batch: WarmBatch) -> float:
    """Learn which of the rules explains the batch. Returns the slots that it kept busy, by the rule that applies.

    >>> memory = WavesMemory()
    >>> for _ in range(40):  # 12 slot-seconds in 2 s on 6 slots, though 8 tasks take two waves on 4 of them
    ...     slots = learn(memory, BatchCost(0.0, 0.01, 0.0), WarmBatch(1200, 6, [8], [1.0], measured_s=2.0))
    >>> memory.in_waves, slots
    (False, 6.0)
    """
    in_waves = effective_slots_at(batch.slots, batch.tasks, batch.work, in_waves=True)
    blurred = effective_slots_at(batch.slots, batch.tasks, batch.work, in_waves=False)
    waves_s, blurred_s = batch_time(cost, batch.rows, in_waves), batch_time(cost, batch.rows, blurred)
    measured_s = batch.measured_s
    if 0 < _APART * blurred_s <= waves_s and measured_s > 0:
        memory.batches += 1
        share = 1 / min(memory.batches, _MEMORY)
        memory.waves_error += share * (log(measured_s / waves_s) ** 2 - memory.waves_error)
        memory.blurred_error += share * (log(measured_s / blurred_s) ** 2 - memory.blurred_error)
    return in_waves if memory.in_waves else blurred
