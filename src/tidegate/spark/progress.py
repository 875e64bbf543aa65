"""Reads the JSON of a streaming progress report, with the oddities that real ones have.

Seen in the wild: no `inputRowsPerSecond` on the first batch, "Infinity" as a string, offsets that are null, lists,
numbers, objects or JSON inside a string, `numOutputRows` of −1, and idle reports that carry two durations only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.domain import DriverTimes
from tidegate.history.offsets import rows_between

IN_METRIC, OUT_METRIC, ORDER_METRIC = "tidegate.in.", "tidegate.out.", "tidegate.order."
LATENCY_METRIC = "tidegate.latency"


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """Rows of one named operator, from the counters that `Topology` puts into the query."""

    name: str
    rows_in: int | None
    rows_out: int | None


@dataclass(frozen=True, slots=True)
class StateReport:
    """All state of a query together."""

    rows: int
    memory_bytes: int
    commit_s: float
    work_s: float
    """Slot-seconds of updates, removals and commits."""
    partitions: int | None


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
    """False for an idle report: no batch ran."""
    add_batch_s: float | None
    backlog_rows: int | None
    latency_sketch: str | None
    operators: tuple[OperatorCount, ...]
    state: StateReport | None
    driver: DriverTimes | None
    """Without the sink's time: the report does not tell it from the tasks'."""


def parse_progress(text: str) -> Progress:
    """Raises ValueError where the text is no progress report at all."""
    report = json.loads(text)
    try:
        durations = report.get("durationMs") or {}
        sources = report.get("sources") or []
        observed = report.get("observedMetrics") or {}
        by_source = tuple(rows_between(source.get("startOffset"), source.get("endOffset")) for source in sources)
        return Progress(
            query_id=str(report["id"]),
            run_id=str(report["runId"]),
            name=report.get("name"),
            batch_id=int(report["batchId"]),
            started_s=datetime.fromisoformat(report["timestamp"]).timestamp(),
            duration_s=float(durations.get("triggerExecution") or report.get("batchDuration") or 0) / 1000,
            rows=_rows(report, by_source),
            committed="addBatch" in durations,
            add_batch_s=float(durations["addBatch"]) / 1000 if "addBatch" in durations else None,
            backlog_rows=_backlog(sources),
            latency_sketch=_first_value(observed.get(LATENCY_METRIC)),
            operators=_operators(observed),
            state=_state(report),
            driver=_driver(durations),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a progress report: {error!r}") from None


def _rows(report: dict[str, Any], by_source: tuple[int | None, ...]) -> int:
    """Offsets first: with foreachBatch `numInputRows` counts every action, or none."""
    if by_source and all(rows is not None for rows in by_source):
        return sum(rows or 0 for rows in by_source)
    return max(0, int(report.get("numInputRows") or 0))


def _backlog(sources: list[dict[str, Any]]) -> int | None:
    """Rows that wait at all sources; None where any of them does not say."""
    waiting = [rows_between(source.get("endOffset"), source.get("latestOffset")) for source in sources]
    return sum(rows or 0 for rows in waiting) if waiting and all(rows is not None for rows in waiting) else None


def _first_value(row: Any) -> str | None:
    values = list(row.values()) if isinstance(row, dict) else row
    return str(values[0]) if isinstance(values, list) and values and values[0] is not None else None


def _operators(observed: dict[str, Any]) -> tuple[OperatorCount, ...]:
    """The named operators in the order of the stages; none where the query was not built with `Topology`."""
    order = next((name.removeprefix(ORDER_METRIC) for name in observed if name.startswith(ORDER_METRIC)), "")
    return tuple(
        OperatorCount(name, _count(observed.get(IN_METRIC + name)), _count(observed.get(OUT_METRIC + name)))
        for name in order.split(",")
        if name
    )


def _count(row: Any) -> int | None:
    value = _first_value(row)
    return int(value) if value is not None and value.isdigit() else None


def _state(report: dict[str, Any]) -> StateReport | None:
    operators = report.get("stateOperators") or []
    if not operators:
        return None

    def total(*names: str) -> float:
        return sum(float(operator.get(name) or 0) for operator in operators for name in names)

    return StateReport(
        rows=int(total("numRowsTotal")),
        memory_bytes=int(total("memoryUsedBytes")),
        commit_s=total("commitTimeMs") / 1000,
        work_s=total("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs") / 1000,
        partitions=operators[0].get("numShufflePartitions"),
    )


def _driver(durations: dict[str, Any]) -> DriverTimes | None:
    if "addBatch" not in durations:
        return None

    def spent_s(*names: str) -> float:
        return sum(float(durations.get(name) or 0) for name in names) / 1000

    return DriverTimes(
        planning_s=spent_s("queryPlanning"),
        offsets_s=spent_s("latestOffset", "getBatch"),
        log_s=spent_s("walCommit", "commitOffsets", "commitBatch"),
    )
