"""How many slots a micro-batch query needs: bulk service with a fixed cost per batch.

A batch of `λ·B` rows on `n` slots takes `T = o + (a + λ·B·s) / n`, where `B` is the time between two batches, `o` the
part of a batch in which no task runs, `a` the fixed slot-seconds of a batch, and `s` the slot-seconds of a row. A row
waits up to `B` for its batch and leaves with it, `T` later.
"""

from __future__ import annotations

from math import ceil, floor, inf, sqrt

from tidegate.domain.cost import BatchCost


def slots_for_rate(rows_per_s: float, cost: BatchCost, batch_s: float, utilisation: float) -> float:
    """Slots that sustain the rate with batches `batch_s` apart: `n = (λ·s + a/B) / (u · (1 − o/B))`.

    >>> round(slots_for_rate(600, BatchCost(batch_s=0, row_s=0.005, overhead_s=0.5), batch_s=2.0, utilisation=0.8), 6)
    5.0
    >>> slots_for_rate(600, BatchCost(batch_s=0, row_s=0.005, overhead_s=2.0), batch_s=2.0, utilisation=0.8)
    inf
    """
    if rows_per_s <= 0:
        return 0.0
    working = 1 - cost.overhead_s / batch_s if batch_s > 0 else 0.0
    if working <= 0:
        return inf
    return (rows_per_s * cost.row_s + cost.batch_s / batch_s) / (utilisation * working)


def slots_for_latency(rows_per_s: float, cost: BatchCost, interval_s: float, latency_s: float) -> float:
    """The fewest slots with `B + T ≤ latency`, B = max(interval, T), so that all rows of a batch meet the objective.

    Either the batch fits into its interval, `T ≤ min(I, L − I)`, or batches follow each other, `T = B ≤ L/2`.

    >>> slots_for_latency(100, BatchCost(batch_s=0, row_s=0.01, overhead_s=0.5), interval_s=1.0, latency_s=2.0)
    2.0
    >>> slots_for_latency(100, BatchCost(batch_s=0, row_s=0.01, overhead_s=3.0), interval_s=1.0, latency_s=2.0)
    inf
    """
    if rows_per_s <= 0:
        return 0.0
    fits_s = min(interval_s, latency_s - interval_s) - cost.overhead_s
    fits = (cost.batch_s + rows_per_s * interval_s * cost.row_s) / fits_s if fits_s > 0 else inf
    half_s = latency_s / 2
    follows = inf
    if interval_s <= half_s and half_s > cost.overhead_s:
        follows = (cost.batch_s + rows_per_s * half_s * cost.row_s) / (half_s - cost.overhead_s)
    return min(fits, follows)


def slots_in_waves(needed: float, tasks: int) -> int:
    """Slots needed for the work of `needed` slots when it comes in `tasks` equal tasks: the last wave may idle some.

    `tasks` on `n` slots take `⌈tasks / n⌉` waves, as if there were `tasks / ⌈tasks / n⌉` slots: eight tasks keep four
    slots busy, but five slots do no more than four.

    >>> [slots_in_waves(needed, tasks=8) for needed in (0.5, 2.0, 2.1, 4.0, 4.1, 9.0)]
    [1, 2, 3, 4, 8, 8]
    """
    if needed >= tasks:
        return tasks
    return ceil(tasks / floor(tasks / needed)) if needed > 0 else 0


def rows_in(batch_s: float, slots: int, cost: BatchCost) -> int | None:
    """Rows that `slots` finish in a batch of `batch_s`, or None if its fixed cost leaves no time for any.

    >>> rows_in(2.5, slots=4, cost=BatchCost(batch_s=0, row_s=0.005, overhead_s=0.5))
    1600
    >>> rows_in(0.4, slots=4, cost=BatchCost(batch_s=0, row_s=0.005, overhead_s=0.5)) is None
    True
    """
    slot_s = (batch_s - cost.overhead_s) * slots - cost.batch_s
    return int(slot_s / cost.row_s) if slot_s > 0 and cost.row_s > 0 else None


def quickest_batch_s(fixed_s: float, work_s: float, utilisation: float) -> float:
    """The length of batches with which waiting rows are done soonest: `B = √(f · W / (1 − ρ))`.

    While new rows keep the slots busy to the share ρ, the waiting work W takes `T = W / (1 − ρ)`. Batches of length B
    add their fixed time f, `T/B · f` in all, and the last row waits for its whole batch: `T·f/B + B` is least at
    `√(f·T)`. This is the square root of the economic order quantity.

    >>> quickest_batch_s(fixed_s=1.0, work_s=18.0, utilisation=0.5)
    6.0
    >>> quickest_batch_s(fixed_s=1.0, work_s=18.0, utilisation=1.2)
    inf
    """
    return sqrt(fixed_s * work_s / (1 - utilisation)) if utilisation < 1 else inf
