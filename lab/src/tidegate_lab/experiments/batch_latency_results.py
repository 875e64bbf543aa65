"""The results of `batch_latency`: cells, rates and findings, all read from the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tidegate.analysis.correlation import Correlations
from tidegate.control.journal import Entry
from tidegate.domain import BatchSample
from tidegate.history.batchrecords import ObservationFlattener
from tidegate.history.metrictable import MetricRecord, MetricTable
from tidegate.load import LoadProfile, Timeline
from tidegate_lab.experiments.rowlatency import row_latencies

WORK_OPERATORS = ("split", "digest", "gather", "widen")
"""The costly operator of each workload."""
TABLE_METRICS = (
    "rows",
    "executors",
    "batch_duration_s",
    "latency_p50_s",
    "throughput_rows_per_s",
    "input_rows_per_s",
    "backlog_rows",
    "utilisation",
    "cpu_s",
    "communication_s",
    "host_cpu_busy",
    "work.capacity",
    "state_rows",
)
"""The metrics of the correlation table; the file of pairs has them all."""
_ROLE = "work"
_MET = 0.95  # share of arriving rows; below it a rate is not sustained
_BACKLOG_ONLY = ("latency_", "data_delay_s", "backlog_rows", "input_rows_per_s", "arrival_rows_per_s", "admission_rows")
_SETTINGS = ("warming", "uptime_s", "trigger_interval_s", "executors_requested")


@dataclass(frozen=True, slots=True)
class Cell:
    """Full batches of one size on a number of executors. Complete latency is from a batch's start to its commit."""

    rows_per_batch: int
    executors: int
    latency_s: float
    latency_max_s: float
    throughput_rows_per_s: float
    batches: int


@dataclass(frozen=True, slots=True)
class Rate:
    """One input rate. Latency here is the rows' own: from arrival to the commit of their batch."""

    rate_rows_per_s: float
    latency_s: float
    latency_p99_s: float
    throughput_rows_per_s: float
    capacity: dict[str, float]
    """Rows executed × service time ÷ (window × instances), by operator: near 1 it is congested."""


@dataclass(frozen=True, slots=True)
class CellWindow:
    """Where in the journal a cell's batches are."""

    application: str
    rows_per_batch: int
    executors: int
    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class RateWindow:
    """Where in the journal the rows of a rate are; `load` began at `start_s`."""

    application: str
    rate_rows_per_s: float
    load: LoadProfile
    start_s: float
    from_s: float
    until_s: float


def batches_of(entries: Iterable[Entry], application: str) -> list[BatchSample]:
    return [
        batch
        for entry in entries
        for sample in (entry.observation.applications if entry.observation else ())
        if sample.name == application
        for batch in sample.batches
        if batch.rows
    ]


def cell_of(entries: Sequence[Entry], window: CellWindow) -> Cell | None:
    """The median over the cell's warm batches; None where there were none."""
    inside = [
        batch
        for batch in batches_of(entries, window.application)
        if batch.rows == window.rows_per_batch
        and batch.started_s >= window.from_s
        and batch.committed_s <= window.until_s
    ][1:]  # the first batch of a size creates plans and buffers
    if not inside:
        return None
    durations_s = np.array([batch.duration_s for batch in inside])
    # Batches follow one another immediately, so their starts give the period; a single one has only its duration.
    periods_s = np.diff([batch.started_s for batch in inside]) if len(inside) > 1 else durations_s
    return Cell(
        rows_per_batch=window.rows_per_batch,
        executors=window.executors,
        latency_s=round(float(np.median(durations_s)), 3),
        latency_max_s=round(float(durations_s.max()), 3),
        throughput_rows_per_s=round(window.rows_per_batch / float(np.median(periods_s)), 1),
        batches=len(inside),
    )


def rate_of(entries: Sequence[Entry], window: RateWindow) -> Rate | None:
    """Count rows by arrival and batches by commit. An unfinished row counts at its age at the end."""
    timeline = Timeline(window.load)
    arrivals_s = timeline.arrivals_s(0, timeline.rows_by(window.until_s - window.start_s))
    latencies_s, _ = row_latencies(entries, window.application, arrivals_s, window.start_s, window.until_s)
    judged_s = latencies_s[arrivals_s >= window.from_s - window.start_s]
    inside = [
        batch
        for batch in batches_of(entries, window.application)
        if window.from_s <= batch.committed_s <= window.until_s
    ]
    if len(inside) < 2 or not len(judged_s):
        return None
    span_s = inside[-1].committed_s - inside[0].committed_s
    capacity: dict[str, list[float]] = {}
    for record in records_of(entries, {window.application}):
        for name, value in record.metrics.items():
            operator, _, metric = name.rpartition(".")
            if metric == "capacity" and window.from_s <= record.time_s <= window.until_s:
                capacity.setdefault(operator, []).append(value)
    return Rate(
        rate_rows_per_s=round(window.rate_rows_per_s, 1),
        latency_s=round(float(np.quantile(judged_s, 0.5)), 3),
        latency_p99_s=round(float(np.quantile(judged_s, 0.99)), 3),
        throughput_rows_per_s=round(sum(batch.rows for batch in inside[1:]) / span_s, 1),
        capacity={operator: round(float(np.mean(values)), 3) for operator, values in capacity.items()},
    )


def records_of(entries: Iterable[Entry], applications: set[str]) -> list[MetricRecord]:
    flattener = ObservationFlattener()
    return [
        record
        for entry in entries
        if entry.observation
        for application, record in flattener.records(entry.observation)
        if application in applications
    ]


def pooled_table(entries: Sequence[Entry], cells: set[str], rates: set[str]) -> MetricTable:
    """All warm batches of all runs in one table, the costly operators under one name.

    In cells, rows come from an unlimited backlog, so their age and number are not meaningful.
    """
    records = [_pooled(record, drop=_BACKLOG_ONLY) for record in records_of(entries, cells)]
    records += [_pooled(record, drop=()) for record in records_of(entries, rates)]
    return MetricTable.from_records("all workloads", [record for record in records if record is not None])


def _pooled(record: MetricRecord, drop: tuple[str, ...]) -> MetricRecord | None:
    if record.metrics.get("warming"):
        return None
    metrics: dict[str, float] = {}
    for name, value in record.metrics.items():
        if name.startswith(drop) if drop else False:
            continue
        operator, dot, metric = name.rpartition(".")
        if operator == "relay" or name in _SETTINGS:
            continue
        metrics[f"{_ROLE if operator in WORK_OPERATORS else operator}{dot}{metric}"] = value
    return MetricRecord(record.time_s, record.batch_id, metrics)


def max_throughput(cells: Sequence[Cell]) -> list[dict[str, float]]:
    """The best of all sizes, per executors."""
    sizes = sorted({cell.executors for cell in cells})
    return [
        {"executors": n, "rows_per_s": max(c.throughput_rows_per_s for c in cells if c.executors == n)} for n in sizes
    ]


def scaling(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return whether batches get slower or faster with executors, by size, and where this reverses.

    >>> cells = [Cell(100, 1, 0.2, 0.2, 500, 3), Cell(100, 3, 0.4, 0.4, 250, 3)]
    >>> cells += [Cell(10000, 1, 4.0, 4.0, 2500, 3), Cell(10000, 3, 2.0, 2.0, 5000, 3)]
    >>> scaling(cells)["crossing_rows"]
    1000
    """
    least, most = min(c.executors for c in cells), max(c.executors for c in cells)
    by = {(c.rows_per_batch, c.executors): c.latency_s for c in cells}
    sizes = sorted({rows for rows, n in by if (rows, least) in by and (rows, most) in by})
    ratios = [by[rows, most] / by[rows, least] for rows in sizes]
    crossing = None
    for at in range(len(sizes) - 1):
        before, after = np.log(ratios[at]), np.log(ratios[at + 1])
        if before > 0 >= after:
            share = before / (before - after)
            crossing = round(float(np.exp(np.interp(share, [0, 1], np.log(sizes[at : at + 2])))))
    return {
        "executors": [least, most],
        "latency_ratio": {str(rows): round(ratio, 3) for rows, ratio in zip(sizes, ratios, strict=True)},
        "fastest_executors": {
            str(rows): min((c for c in cells if c.rows_per_batch == rows), key=lambda c: c.latency_s).executors
            for rows in sizes
        },
        "crossing_rows": crossing,
    }


def congested_from(rates: Sequence[Rate]) -> float | None:
    """Return the lowest rate that was not sustained: less than 95 % of the rows were processed."""
    missed = [r.rate_rows_per_s for r in rates if r.throughput_rows_per_s < _MET * r.rate_rows_per_s]
    return min(missed, default=None)


def to_json(cells: Sequence[Cell], rates: Sequence[Rate]) -> dict[str, Any]:
    """One workload's part of the document."""
    return {
        "complete_latency": [asdict(cell) for cell in cells],
        "max_throughput": max_throughput(cells),
        "congestion": [asdict(rate) for rate in rates],
        "scaling": scaling(cells) if len({c.executors for c in cells}) > 1 else None,
        "congested_from_rows_per_s": congested_from(rates),
    }


def table_json(found: Correlations) -> dict[str, Any]:
    """The pairs of the correlation table, the strongest first; a 95 % interval with each."""
    pairs = [pair for pair in found.pairs() if pair.a in TABLE_METRICS and pair.b in TABLE_METRICS]
    return {"samples": found.samples, "correction": found.correction, "pairs": [asdict(pair) for pair in pairs]}
