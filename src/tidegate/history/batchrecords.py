"""Turns observations into one record of metrics per batch, the rows of a recorded history."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.domain import ApplicationSample, BatchSample, Observation, OperatorSample
from tidegate.history.metriccatalogue import operator_column
from tidegate.history.metrictable import MetricRecord

_MOST_ARRIVALS = 4096
_CONGESTED = 0.8  # threshold of an operator's capacity; near 1 is overloaded


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The pool and the hosts at the time of a batch."""

    slots: int | None = None
    executors: int | None = None
    requested: int | None = None
    cpu_busy: float | None = None
    cpu_user: float | None = None
    cpu_system: float | None = None
    cpu_pressure: float | None = None
    memory_free_bytes: int | None = None


@dataclass(slots=True)
class Flattener:
    """Follows one application's batches in order, because rates need the previous batch.

    >>> flattener = Flattener()
    >>> first = flattener.metrics(BatchSample(0, 0.0, 0.5, 100, 1.0, 0.1, 0), Surroundings(slots=2))
    >>> second = flattener.metrics(BatchSample(1, 2.0, 0.5, 100, 1.0, 0.1, 20), Surroundings(slots=2))
    >>> "input_rows_per_s" in first, second["input_rows_per_s"], second["utilisation"]
    (False, 60.0, 0.25)
    """

    _first_s: float | None = None
    _before: BatchSample | None = field(default=None)

    def metrics(self, batch: BatchSample, around: Surroundings) -> dict[str, float]:
        """Return all known values of a batch, by metric."""
        before, self._before = self._before, batch
        self._first_s = batch.started_s if self._first_s is None else self._first_s
        between_s = batch.started_s - before.started_s if before else None
        commits_s = batch.committed_s - before.committed_s if before else None
        found: dict[str, float | None] = {
            "rows": batch.rows,
            "uptime_s": batch.started_s - self._first_s,
            "warming": float(batch.warming),
            "batch_duration_s": batch.duration_s,
            "overhead_s": batch.overhead_s,
            "processing_s": None if batch.overhead_s is None else max(0.0, batch.duration_s - batch.overhead_s),
            "backlog_rows": batch.backlog_rows,
            "busy_s": batch.busy_s,
            "cpu_s": _total([operator.cpu_s for operator in batch.operators]),
            "communication_s": _total([operator.communication_s for operator in batch.operators]),
            "fetch_wait_s": _total([operator.fetch_wait_s for operator in batch.operators]),
            "shuffle_read_bytes": _total([operator.bytes_in for operator in batch.operators]),
            "shuffle_write_bytes": _total([operator.bytes_out for operator in batch.operators]),
            "tasks_failed": _total([operator.failed_tasks for operator in batch.operators]),
            "execution_s": _total([operator.execute_latency_s for operator in batch.operators]),
            "state_rows": batch.state_rows,
            "state_memory_bytes": _largest([operator.state_bytes for operator in batch.operators]),
            "state_commit_s": _largest([operator.state_commit_s for operator in batch.operators]),
            "late_rows": batch.dropped_rows,
            "watermark_delay_s": batch.watermark_gap_s,
            "planning_s": batch.driver.planning_s if batch.driver else None,
            "slots": around.slots,
            "executors": around.executors,
            "executors_requested": around.requested,
            "host_cpu_busy": around.cpu_busy,
            "host_cpu_user": around.cpu_user,
            "host_cpu_system": around.cpu_system,
            "host_cpu_pressure": around.cpu_pressure,
            "host_memory_free_bytes": around.memory_free_bytes,
        }
        if before and between_s and between_s > 0:
            waiting = (batch.backlog_rows or 0) - (before.backlog_rows or 0)
            found["input_rows_per_s"] = max(0.0, (batch.rows + waiting) / between_s)
            if around.slots and batch.busy_s is not None:
                found["utilisation"] = batch.busy_s / (around.slots * between_s)
        if commits_s and commits_s > 0:
            found["throughput_rows_per_s"] = batch.rows / commits_s
        if batch.latency is not None:
            found |= {
                "latency_p50_s": batch.latency.p50_s,
                "latency_p90_s": batch.latency.p90_s,
                "latency_p99_s": batch.latency.p99_s,
                "latency_max_s": batch.latency.max_s,
                "data_delay_s": max(0.0, batch.latency.p50_s - batch.duration_s),
            }
        if batch.memory is not None:
            found |= {
                "gc_s": batch.memory.gc_s,
                "spill_bytes": batch.memory.spilled_bytes,
                "peak_memory_bytes": batch.memory.peak_bytes,
                "tasks_out_of_memory": batch.memory.out_of_memory,
            }
        for place, operator in enumerate(batch.operators):
            values = _operator_metrics(operator, between_s, around.slots) | _type_of(place, batch.operators)
            for name, value in values.items():
                found[operator_column(operator.name, name)] = value
        return {name: float(value) for name, value in found.items() if value is not None}


def _operator_metrics(operator: OperatorSample, between_s: float | None, slots: int | None) -> dict[str, float | None]:
    found: dict[str, float | None] = {
        "parallelism": operator.parallelism,
        "rows_in": operator.rows_in,
        "rows_out": operator.rows_out,
        "busy_s": operator.busy_s,
        "cpu_s": operator.cpu_s,
        "communication_s": operator.communication_s,
        "execute_latency_s": operator.execute_latency_s,
        "tasks_failed": operator.failed_tasks,
        "executors": len(set(operator.executors)) or None,
    }
    if operator.rows_in and operator.rows_out is not None:
        found["selectivity"] = operator.rows_out / operator.rows_in
    if between_s and between_s > 0:
        # Rows executed × service time ÷ (window × instances); more instances than slots cannot run at once.
        instances = min(operator.parallelism, slots) if slots else operator.parallelism
        capacity = operator.busy_s / (between_s * max(1, instances))
        found |= {"capacity": capacity, "congested": float(capacity >= _CONGESTED)}
    return found


def _type_of(place: int, operators: Sequence[OperatorSample]) -> dict[str, float | None]:
    """What kind of component an operator is. It may be several: in a word count, `count` keeps state and writes.

    The first operator reads a source, and so does every other one that gets rows without fetching them from another
    operator (a join has two). The last operator writes to the sink.
    """
    operator = operators[place]
    reads = place == 0 or (operator.bytes_in == 0 and bool(operator.rows_in))
    return {
        "is_source": float(reads),
        "is_stateful": float(operator.stateful),
        "is_sink": float(place == len(operators) - 1),
    }


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _largest(values: Sequence[float | None]) -> float | None:
    """Spark reports state by query, so every operator with state shows that of the whole query."""
    return max((value for value in values if value is not None), default=None)


@dataclass(slots=True)
class _Followed:
    batches: Flattener = field(default_factory=Flattener)
    arrivals: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_ARRIVALS))

    def arrival_rows_per_s(self, since_s: float) -> float | None:
        """Return rows per second from `since_s` to the source's latest report, which is newer than the batch's own."""
        if len(self.arrivals) < 2 or not self.arrivals[0][0] <= since_s < self.arrivals[-1][0]:
            return None
        times_s, counts = zip(*self.arrivals, strict=True)
        then = float(np.interp(since_s, times_s, counts))
        return max(0.0, float((counts[-1] - then) / (times_s[-1] - since_s)))


@dataclass(slots=True)
class ObservationFlattener:
    """All applications of a stream of observations."""

    _by_application: dict[str, _Followed] = field(default_factory=dict)

    def records(self, observation: Observation) -> list[tuple[str, MetricRecord]]:
        """Return the batches of one observation, as `(application, record)`."""
        around = surroundings(observation)
        found = []
        for sample in observation.applications:
            followed = self._by_application.setdefault(sample.name, _Followed())
            arrived = sample.arrival.arrived_rows if sample.arrival is not None else None
            if sample.arrival is not None and arrived is not None:
                if followed.arrivals and arrived < followed.arrivals[-1][1]:
                    followed.arrivals.clear()  # the source was restarted
                followed.arrivals.append((sample.arrival.time_s, arrived))
            for batch in sample.batches:
                metrics = followed.batches.metrics(batch, around) | _settings(sample)
                rate = followed.arrival_rows_per_s(batch.started_s)
                if rate is not None:
                    metrics["arrival_rows_per_s"] = rate
                found.append((sample.name, MetricRecord(batch.committed_s, batch.batch_id, metrics)))
        return found


def surroundings(observation: Observation) -> Surroundings:
    """Return pool and hosts of an observation; of several hosts, the worst values."""
    hosts = observation.hosts
    return Surroundings(
        slots=observation.pool.slots,
        executors=observation.pool.registered,
        requested=observation.pool.requested,
        cpu_busy=max((host.cpu_busy for host in hosts if host.cpu_busy is not None), default=None),
        cpu_user=max((host.cpu_user for host in hosts if host.cpu_user is not None), default=None),
        cpu_system=max((host.cpu_system for host in hosts if host.cpu_system is not None), default=None),
        cpu_pressure=max((host.cpu_pressure for host in hosts if host.cpu_pressure is not None), default=None),
        memory_free_bytes=min(
            (host.memory_free_bytes for host in hosts if host.memory_free_bytes is not None), default=None
        ),
    )


def _settings(sample: ApplicationSample) -> dict[str, float]:
    found = {"trigger_interval_s": float(sample.interval_s)}
    if sample.admission_rows is not None:
        found["admission_rows"] = float(sample.admission_rows)
    return found
