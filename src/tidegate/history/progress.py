"""Parses streaming progress reports of Spark 3.x and 4.x, live or recorded.

Variations found in practice: no `inputRowsPerSecond` on the first batch, "NaN" and "Infinity" as text, offsets that are
null, lists, numbers, objects or JSON inside a string, `numOutputRows` of −1, idle reports with two durations, no
`latestOffset` of the sources (before 3.2).
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from tidegate.domain import DriverTimes, PartitionLag
from tidegate.domain.python310 import iso_time
from tidegate.history.fields import amount, items, seconds, section, text, whole
from tidegate.history.offsets import MOST_PARTITIONS, lag_by_partition, plain_offset, rows_between

_DURATIONS = {  # metric ← durationMs
    "processing_s": "addBatch",
    "planning_s": "queryPlanning",
    "latest_offset_s": "latestOffset",
    "wal_commit_s": "walCommit",
    "commit_offsets_s": "commitOffsets",
}
IN_METRIC, OUT_METRIC, ORDER_METRIC = "tidegate.in.", "tidegate.out.", "tidegate.order."
LATENCY_METRIC = "tidegate.latency"


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """Rows of one named operator, from the counters that `Topology` adds to the query."""

    name: str
    rows_in: int | None
    rows_out: int | None


@dataclass(frozen=True, slots=True)
class StateReport:
    """The state of all operators of a query."""

    rows: int
    memory_bytes: int
    commit_s: float
    work_s: float
    """Slot-seconds of updates, removals and commits."""
    partitions: int | None
    operators: int = 1
    """Stateful operators."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress report."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    started_s: float
    duration_s: float
    rows: int
    committed: bool
    """False for an idle report without a batch."""
    backlog_rows: int | None
    latency_sketch: str | None
    latency_counts: tuple[float, ...]
    """Without a sketch: rows, oldest, newest, time of the batch, rows above some ages."""
    operators: tuple[OperatorCount, ...]
    state: StateReport | None
    driver: DriverTimes
    """Without the sink's time, which the report does not separate from the tasks'."""
    metrics: dict[str, float]
    """Other values, by their names in the catalogue."""
    lag: tuple[PartitionLag, ...] = ()
    offsets: tuple[tuple[Any, Any], ...] = ()
    """For each source, the offsets before and after the batch, if they are JSON."""

    @property
    def application(self) -> str:
        return self.name or self.query_id

    @property
    def committed_s(self) -> float:
        return self.started_s + self.duration_s

    @property
    def dropped_rows(self) -> int | None:
        """Rows that were older than the watermark."""
        dropped = self.metrics.get("late_rows")
        return None if dropped is None else int(dropped)

    @property
    def add_batch_s(self) -> float | None:
        return self.metrics.get("processing_s")


def parse_progress(line: str) -> Progress:
    """Parse a report as Spark writes it. Raises ValueError if the text is not a report."""
    return read_progress(section(json.loads(line)))


def read_progress(report: dict[str, Any]) -> Progress:
    """Read a parsed report. Raises ValueError if it is not one.

    >>> report = {"id": "q", "runId": "r", "batchId": 3, "timestamp": "2026-01-01T00:00:00.000Z", "numInputRows": 7,
    ...           "durationMs": {"triggerExecution": 250, "addBatch": 200}, "sources": [{"numInputRows": 7}]}
    >>> batch = read_progress(report)
    >>> batch.rows, batch.duration_s, batch.add_batch_s
    (7, 0.25, 0.2)
    """
    batch_id, stamp = whole(report.get("batchId")), text(report.get("timestamp"))
    if batch_id is None or stamp is None:
        raise ValueError("not a progress report: batch or time is missing")
    started_s = _epoch_s(stamp)
    durations = section(report.get("durationMs"))
    duration_s = seconds(durations.get("triggerExecution"))
    duration_s = seconds(report.get("batchDuration")) if duration_s is None else duration_s
    if duration_s is None:
        raise ValueError("not a progress report: the duration is missing")
    sources = [section(source) for source in items(report.get("sources"))]
    states = [section(state) for state in items(report.get("stateOperators"))]
    observed = section(report.get("observedMetrics"))
    return Progress(
        query_id=text(report.get("id")) or "query",
        run_id=text(report.get("runId")) or "run",
        name=text(report.get("name")),
        batch_id=batch_id,
        started_s=started_s,
        duration_s=duration_s,
        rows=_rows(report, sources),
        committed=not durations or "addBatch" in durations,
        backlog_rows=_backlog(sources),
        latency_sketch=text(_first_value(observed.get(LATENCY_METRIC))),
        latency_counts=_counts(observed.get(LATENCY_METRIC)),
        operators=_operators(observed),
        state=_state(states) if states else None,
        driver=_driver(durations),
        metrics=_metrics(report, durations, states, started_s),
        lag=_lag(sources),
        offsets=tuple((plain_offset(one.get("startOffset")), plain_offset(one.get("endOffset"))) for one in sources),
    )


def _epoch_s(stamp: str) -> float:
    """Convert ISO time to seconds since the epoch. Implausible years are refused."""
    parsed = iso_time(stamp)
    if not 1980 <= parsed.year <= 2200:
        raise ValueError(f"a report of the year {parsed.year}")
    return parsed.timestamp()


def _rows(report: dict[str, Any], sources: list[dict[str, Any]]) -> int:
    """Return the rows of the batch, from offsets if possible: with foreachBatch the report's own count is wrong."""
    counted = [rows_between(source.get("startOffset"), source.get("endOffset")) for source in sources]
    if counted and all(rows is not None for rows in counted):
        return sum(rows or 0 for rows in counted)
    total = whole(report.get("numInputRows"))
    return whole(_sum(sources, "numInputRows")) or 0 if total is None else total


def _backlog(sources: list[dict[str, Any]]) -> int | None:
    waiting = [rows_between(source.get("endOffset"), source.get("latestOffset")) for source in sources]
    return sum(rows or 0 for rows in waiting) if waiting and all(rows is not None for rows in waiting) else None


def _lag(sources: list[dict[str, Any]]) -> tuple[PartitionLag, ...]:
    found = [
        PartitionLag(*one)
        for source in sources
        for one in lag_by_partition(source.get("endOffset"), source.get("latestOffset"))
    ]
    return tuple(sorted(found, key=lambda one: -one.rows)[:MOST_PARTITIONS])


def _metrics(
    report: dict[str, Any], durations: dict[str, Any], states: list[dict[str, Any]], started_s: float
) -> dict[str, float]:
    found: dict[str, float | None] = {name: seconds(durations.get(key)) for name, key in _DURATIONS.items()}
    found["state_memory_bytes"] = _sum(states, "memoryUsedBytes")
    found["late_rows"] = _sum(states, "numRowsDroppedByWatermark")
    found["state_commit_s"] = seconds(_sum(states, "commitTimeMs"))
    found["output_rows"] = amount(section(report.get("sink")).get("numOutputRows"))
    watermark = text(section(report.get("eventTime")).get("watermark"))
    if watermark and not watermark.startswith("1970"):  # 1970 means that there is no watermark yet
        with contextlib.suppress(ValueError):
            found["watermark_delay_s"] = max(0.0, started_s - _epoch_s(watermark))
    return {name: value for name, value in found.items() if value is not None}


def _state(states: list[dict[str, Any]]) -> StateReport:
    def total(*keys: str) -> float:
        return sum(_sum(states, key) or 0.0 for key in keys)

    return StateReport(
        rows=int(total("numRowsTotal")),
        memory_bytes=int(total("memoryUsedBytes")),
        commit_s=total("commitTimeMs") / 1000,
        work_s=total("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs") / 1000,
        partitions=whole(states[0].get("numShufflePartitions")),
        operators=len(states),
    )


def _driver(durations: dict[str, Any]) -> DriverTimes:
    def spent_s(*keys: str) -> float:
        return sum(seconds(durations.get(key)) or 0.0 for key in keys)

    return DriverTimes(
        planning_s=spent_s("queryPlanning"),
        offsets_s=spent_s("latestOffset", "getBatch"),
        log_s=spent_s("walCommit", "commitOffsets", "commitBatch"),
    )


def _sum(parts: list[dict[str, Any]], key: str) -> float | None:
    known = [value for part in parts if (value := amount(part.get(key))) is not None]
    return sum(known) if known else None


def _operators(observed: dict[str, Any]) -> tuple[OperatorCount, ...]:
    """Return the named operators in stage order; empty if the query was not built with `Topology`."""
    order = next((name.removeprefix(ORDER_METRIC) for name in observed if name.startswith(ORDER_METRIC)), "")

    def count(key: str) -> int | None:
        return whole(_first_value(observed.get(key)))

    return tuple(
        OperatorCount(name, count(IN_METRIC + name), count(OUT_METRIC + name)) for name in order.split(",") if name
    )


def _counts(row: Any) -> tuple[float, ...]:
    found = [amount(value) for value in _values(row)]
    return tuple(value for value in found if value is not None) if None not in found else ()


def _first_value(row: Any) -> Any:
    return next(iter(_values(row)), None)


def _values(row: Any) -> list[Any]:
    """Return the values of an observed metric, which is an object in live reports and a list in some logs."""
    return list(row.values()) if isinstance(row, dict) else items(row)
