"""Slots' worth of work that a pool does over time: executors that start, warm up and retire, and tasks in waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_SLOTS = 1e-6
"""Stands for zero slots: work then takes practically forever, and no division fails."""


@dataclass(frozen=True, slots=True)
class SlotPath:
    """Slots at each step of the model: usable ones and paid ones."""

    usable: Floats
    """Warm slots. A warming slot counts by its speed."""
    held: Floats
    """Slots of all executors that were requested and have not left yet."""


@dataclass(frozen=True, slots=True)
class ExecutorStart:
    """How new executors come up: they register after `startup_s` and are slow for another `warmup_s`."""

    startup_s: float = 5.0
    warmup_s: float = 10.0
    warmup_speed: float = 0.5

    def __post_init__(self) -> None:
        if min(self.startup_s, self.warmup_s) < 0 or not 0 < self.warmup_speed <= 1:
            raise ValueError("durations are 0 or more, and the warm-up speed is above 0 and at most 1")


_USUAL_START = ExecutorStart()


def ramp(
    now: float,
    target: float,
    steps: int,
    step_s: float,
    *,
    start: ExecutorStart = _USUAL_START,
    leave_s: float = 0.0,
) -> SlotPath:
    """From `now` slots to `target`, requested at time 0.

    Executors that are no longer wanted stay until `leave_s`, when the running batch is done. A step that contains a
    change counts proportionally.

    >>> path = ramp(2, 4, steps=4, step_s=5.0)
    >>> path.usable.tolist(), path.held.tolist()
    ([2.0, 3.0, 3.0, 4.0], [4.0, 4.0, 4.0, 4.0])
    >>> ramp(4, 2, steps=3, step_s=2.0, leave_s=3.0).usable.tolist()
    [4.0, 3.0, 2.0]
    """
    if min(now, target, leave_s) < 0:
        raise ValueError("slots and durations are 0 or more")
    if target <= now:
        gone = _share_after(leave_s, steps, step_s)
        slots = now - (now - target) * gone
        return SlotPath(slots, slots)
    registered = _share_after(start.startup_s, steps, step_s)
    warm = _share_after(start.startup_s + start.warmup_s, steps, step_s)
    added = target - now
    usable = now + added * (start.warmup_speed * (registered - warm) + warm)
    return SlotPath(np.maximum(usable, 0.0), np.full(steps, float(target)))


def _share_after(moment_s: float, steps: int, step_s: float) -> Floats:
    """The share of each step that lies after the moment."""
    ends_s = np.arange(1, steps + 1, dtype=np.float64) * step_s
    return np.clip((ends_s - moment_s) / step_s, 0.0, 1.0)


def effective_slots(slots: Floats, tasks: Sequence[int], work_share: Sequence[float], in_waves: bool = True) -> Floats:
    """Slots that a batch keeps busy on average, if each operator has `tasks` tasks of equal size.

    `k` tasks on `n` slots take `⌈k/n⌉` waves, as if there were `r = k/⌈k/n⌉ ≤ n` slots. Operators follow one another,
    so operators with shares `w` of the work have the weighted harmonic mean `1 / Σ w/r`. Fractions of a slot (warm-up,
    shares) are interpolated linearly. If tasks differ a lot or are many, waves blur: `in_waves=False` only applies the
    limit `min(n, k)`.

    >>> effective_slots(np.array([1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 9.0]), tasks=(8,), work_share=(1.0,)).round(2).tolist()
    [1.0, 2.0, 2.67, 4.0, 4.0, 8.0, 8.0]
    >>> effective_slots(np.array([4.0]), tasks=(4, 1), work_share=(0.5, 0.5)).tolist()  # 1 / (0.5/4 + 0.5/1)
    [1.6]
    """
    if not tasks:
        return np.maximum(slots, LEAST_SLOTS)
    most = ceil(float(np.max(slots, initial=1.0)))
    counts = np.arange(1, most + 1, dtype=np.float64)
    seconds = np.zeros(most)
    whole = sum(work_share)
    for count, share in zip(tasks, work_share, strict=True):
        busy = count / np.ceil(count / counts) if in_waves else np.minimum(counts, count)
        seconds += share / whole / busy
    table = np.concatenate(((0.0,), 1 / seconds))
    return np.maximum(np.interp(slots, np.arange(most + 1, dtype=np.float64), table), LEAST_SLOTS)


def effective_slots_at(slots: float, tasks: Sequence[int], work_share: Sequence[float], in_waves: bool = True) -> float:
    """The same for one number of slots, without the table, because every batch needs it.

    >>> [effective_slots_at(slots, (4, 1), (0.5, 0.5)) for slots in (4.0, 3.5)]
    [1.6, 1.4666666666666668]
    """
    if not tasks:
        return max(slots, LEAST_SLOTS)
    below, whole = floor(slots), sum(work_share)
    busy = _busy_on(below, tasks, work_share, whole, in_waves)
    if slots > below:
        busy = (_busy_on(below + 1, tasks, work_share, whole, in_waves) - busy) * (slots - below) + busy
    return max(busy, LEAST_SLOTS)


def _busy_on(slots: int, tasks: Sequence[int], work_share: Sequence[float], whole: float, in_waves: bool) -> float:
    """Slots kept busy out of a whole number of slots."""
    if slots <= 0:
        return 0.0
    seconds = 0.0
    for count, share in zip(tasks, work_share, strict=True):
        seconds += share / whole / (count / ceil(count / slots) if in_waves else min(slots, count))
    return 1 / seconds
