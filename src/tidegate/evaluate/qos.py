"""Evaluates QoS tables and graphs: which objectives are met now, each over its own window.

A window is a ring of short buckets, so memory is bounded whatever the batch rate, and older samples are dropped. For a
table row, the score is the share of samples within the bound; for a graph, it is the mean utility.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.domain import ApplicationSample, BatchSample, QosReading
from tidegate.domain.policy import Policy
from tidegate.domain.qostables import ROW_LATENCY, QosGraph, QosRow
from tidegate.domain.resolution import told
from tidegate.evaluate.lateness import late_share
from tidegate.evaluate.measurement import Before, Readings, read_batch

_BUCKETS = 12
_LEAST_SAMPLES = 5
_ROUNDING = 1e-9

Wanted = QosRow | QosGraph


@dataclass(slots=True)
class ScoreBucket:
    """Samples of one part of a window: rows if each has its own value, otherwise batches."""

    number: int
    weight: float = 0.0
    score: float = 0.0
    value: float = 0.0


@dataclass(slots=True)
class QosMemory:
    """Memory of one application: a ring per objective, by its key, and the previous batch."""

    windows: dict[str, list[ScoreBucket]] = field(default_factory=dict)
    before: Before | None = None


def wanted_of(policy: Policy, application: str) -> tuple[Wanted, ...]:
    """The rows of its QoS table and its graphs. The general latency objective is counted in `lateness`."""
    rule = policy.applications.get(application)
    return (*rule.qos_table, *rule.qos_graphs) if rule else ()


def observe(memory: QosMemory, sample: ApplicationSample, wanted: Iterable[Wanted], now_s: float) -> None:
    """Add the batches of one observation. Windows of removed objectives are dropped."""
    by_key = {one.key: one for one in wanted}
    wanted = tuple(by_key.values())
    memory.windows = {key: memory.windows.get(key, []) for key in by_key}
    asked = tuple(dict.fromkeys((one.operator, str(one.metric)) for one in wanted))
    for batch in sample.batches:
        readings = read_batch(batch, memory.before, asked)
        memory.before = Before(batch.started_s, batch.committed_s, batch.backlog_rows or 0)
        for one, window in zip(wanted, memory.windows.values(), strict=True):
            _take_in(window, one, batch, readings)
    for one, window in zip(wanted, memory.windows.values(), strict=True):
        oldest = int(now_s // _bucket_s(one)) - _BUCKETS
        window[:] = [bucket for bucket in window if bucket.number > oldest]


def evaluate(memory: QosMemory, application: str, one: Wanted) -> QosReading:
    """The reading of an objective over its window.

    >>> from tidegate.domain import LatencySample
    >>> memory, row = QosMemory(), QosRow(metric="latency_s", bound=2.0, percentile=0.9)
    >>> for number in range(6):
    ...     batch = BatchSample(number, number, 0.5, 100, 1.0, 0.1, 0, LatencySample(100, 1.0, 3.0, 4.0, 5.0))
    ...     observe(memory, ApplicationSample("words", (batch,), number + 0.5, 1.0), [row], number + 1.0)
    >>> reading = evaluate(memory, "words", row)
    >>> reading.met, round(reading.score, 2), reading.value
    (False, 0.78, 4.0)
    """
    buckets = memory.windows.get(one.key, ())
    weight = sum(bucket.weight for bucket in buckets)
    if weight <= 0:
        return QosReading(application, str(one), None, None, None)
    score = sum(bucket.score for bucket in buckets) / weight
    least = one.percentile if isinstance(one, QosRow) else one.least
    met = score >= least - _ROUNDING if least is not None and weight >= _LEAST_SAMPLES else None
    value = sum(bucket.value for bucket in buckets) / weight
    return QosReading(application, str(one), met, told(score), told(value))


def _take_in(window: list[ScoreBucket], one: Wanted, batch: BatchSample, readings: Readings) -> None:
    value = readings.get((one.operator, one.metric))
    if value is None:
        return
    weight = float(batch.latency.rows) if one.metric == ROW_LATENCY and batch.latency else 1.0
    number = int(batch.committed_s // _bucket_s(one))
    bucket = next((bucket for bucket in reversed(window) if bucket.number == number), None)
    if bucket is None:
        bucket = ScoreBucket(number)
        window.append(bucket)
    bucket.weight += weight
    bucket.score += weight * _score(one, value, batch)
    bucket.value += weight * value


def _score(one: Wanted, value: float, batch: BatchSample) -> float:
    if isinstance(one, QosGraph):
        return one.utility(value)
    if one.metric == ROW_LATENCY and batch.latency is not None:
        late = late_share(batch.latency, one.bound)
        return 1.0 - late if one.side == "at most" else late
    return float(value <= one.bound if one.side == "at most" else value >= one.bound)


def _bucket_s(one: Wanted) -> float:
    return one.window_s / _BUCKETS
