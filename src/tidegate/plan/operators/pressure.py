"""Whether an application needs help: rows pile up or will, its objective is in danger, or its latency left its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.domain import BatchSample, Objective, Reason
from tidegate.evaluate.bottleneck import (
    ApplicationMetrics,
    BottleneckTime,
    add_latency,
    learn_links,
    reference_bottleneck_s,
    same_order,
)
from tidegate.plan.operators.memory import ApplicationMemory
from tidegate.plan.proposersettings import OperatorSettings

_MOST_BATCHES = 40
_LEAST_BATCHES = 5
_PILES_UP = 1.5  # growth of the waiting rows over the required recurrences
_CATCHES_UP = 1.5  # a batch this much larger than usual after a restart clears the backlog of the pause


@dataclass(frozen=True, slots=True)
class RisingLoad:
    """Rising arrivals: the expected rate, and the slots available for it."""

    rows_per_s: float
    slots: int


@dataclass(frozen=True, slots=True)
class Circumstances:
    """An application as it runs now, and what is asked of it."""

    time_s: float
    metrics: ApplicationMetrics
    worst: BottleneckTime
    objective: Objective
    rising: RisingLoad | None = None


def take_in(
    memory: ApplicationMemory, batches: Sequence[BatchSample], objective: Objective, rule: OperatorSettings
) -> bool:
    """Learn from new batches. True if one of them calls for a closer look."""
    alarmed = False
    for batch in batches:
        if batch.warming:
            memory.start_anew()
            if memory.trial is not None:
                memory.trial.restarted = True
            continue
        if not batch.rows or not batch.operators:
            continue
        if memory.batches and not _same_shape(memory.batches[-1], batch):
            memory.start_anew()
        if _works_off_a_pause(memory, batch, rule):
            continue
        memory.batches.append(batch)
        learn_links(memory.links, batch)
        pressed = row_latency_s(batch, objective) > rule.comfort * objective.latency_s
        if pressed:
            memory.pressed_s.append(batch.committed_s)
        working_s = batch.duration_s - (batch.overhead_s or 0.0)
        exceeds = add_latency(memory.threshold, batch.committed_s, working_s, rule.accuracy, rule.interval_s)
        # A bottleneck that cannot be fixed is not news, unless it gets worse.
        alarmed = alarmed or exceeds or ((pressed or _failed_tasks(batch) > 0) and memory.stuck is None)
    if batches:
        _drop_old(memory, rule.interval_s)
    return alarmed


def row_latency_s(batch: BatchSample, objective: Objective) -> float:
    """Latency of the slowest rows of a batch, up to the objective's percentile, or its duration if that is unknown."""
    if batch.latency is None:
        return batch.duration_s
    return batch.latency.p99_s if objective.percentile > 0.9 else batch.latency.p90_s


def trigger(memory: ApplicationMemory, seen: Circumstances, rule: OperatorSettings) -> Reason | None:
    """Why something should be done, or None."""
    now_s, metrics, objective, rising = seen.time_s, seen.metrics, seen.objective, seen.rising
    if _overloaded(memory.batches[-rule.recurrences - 1 :], rule.recurrences, metrics.interval_s):
        return Reason("overload", "its backlog grows with every batch")
    if rising is not None:
        most = rule.full * metrics.most_rows_per_s(rising.slots)
        if rising.rows_per_s > most:
            text = f"{rising.rows_per_s:.0f} rows/s are expected, but its operators are full at {most:.0f}"
            return Reason("outlook", text)
    failing = [
        batch for batch in memory.batches if _failed_tasks(batch) and batch.committed_s > now_s - rule.interval_s
    ]
    if len(failing) >= rule.recurrences:
        failed = sum(map(_failed_tasks, failing))
        text = f"{failed} tasks failed in {len(failing)} batches within {rule.interval_s:.0f} s"
        return Reason("failures", text)
    recent = _recent(memory.batches, now_s - rule.interval_s / 2, rule.recurrences)
    pressed = [batch for batch in recent if batch.committed_s in memory.pressed_s]
    long_enough = recent[-1].committed_s - recent[0].started_s >= rule.interval_s / 4
    if long_enough and len(pressed) >= max(rule.recurrences, len(recent) / 2):
        latency_s = sum(row_latency_s(batch, objective) for batch in recent) / len(recent)
        return Reason("objective", f"latency {latency_s:.2f} s against an objective of {objective.latency_s:.2f} s")
    reference_s = reference_bottleneck_s(memory.threshold, now_s, rule.interval_s, rule.recurrences)
    if reference_s is not None and same_order(seen.worst.time_s, reference_s):
        return Reason(
            "threshold",
            f"batches took longer than their trend {len(memory.threshold.effective)} times in {rule.interval_s:.0f} s"
            f" (reference bottleneck {reference_s:.2f} s)",
        )
    return None


def _failed_tasks(batch: BatchSample) -> int:
    return sum(stage.failed_tasks or 0 for stage in batch.operators)


def _overloaded(batches: Sequence[BatchSample], recurrences: int, interval_s: float) -> bool:
    if len(batches) <= recurrences or any(batch.duration_s <= interval_s for batch in batches[1:]):
        return False
    waiting = [batch.rows + (batch.backlog_rows or 0) for batch in batches]
    return all(after > before for before, after in pairwise(waiting)) and waiting[-1] > _PILES_UP * waiting[0]


def _works_off_a_pause(memory: ApplicationMemory, batch: BatchSample, rule: OperatorSettings) -> bool:
    trial = memory.trial
    if trial is None or batch.started_s > trial.asked_s + trial.pause_s + rule.interval_s:
        return False
    return batch.rows > _CATCHES_UP * trial.rows or bool(batch.backlog_rows and batch.backlog_rows > trial.rows)


def _recent(batches: Sequence[BatchSample], since_s: float, least: int) -> Sequence[BatchSample]:
    inside = [batch for batch in batches if batch.committed_s >= since_s]
    return inside if len(inside) >= least else batches[-least:]


def _drop_old(memory: ApplicationMemory, interval_s: float) -> None:
    if not memory.batches:
        return
    since_s = memory.batches[-1].committed_s - interval_s
    old = 0
    while memory.batches[old].committed_s < since_s:  # they are in the order of time
        old += 1
    kept = min(max(len(memory.batches) - old, _LEAST_BATCHES), _MOST_BATCHES)
    del memory.batches[:-kept]
    oldest_s = memory.batches[0].committed_s
    memory.pressed_s = [time_s for time_s in memory.pressed_s if time_s >= oldest_s]


def _same_shape(before: BatchSample, batch: BatchSample) -> bool:
    """The same operators and tasks? Tasks of the source may differ from batch to batch, depending on the rows."""
    if len(before.operators) != len(batch.operators):
        return False
    return all(
        was.name == now.name and (place == 0 or was.parallelism == now.parallelism)
        for place, (was, now) in enumerate(zip(before.operators, batch.operators, strict=True))
    )
