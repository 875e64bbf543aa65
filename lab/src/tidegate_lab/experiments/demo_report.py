"""The demonstration's report: the runs side by side, and below them the panels of each run's journal."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from tidegate.view.comparison import Colour, Comparison, Line, Lines, TextTable
from tidegate.view.report import write_report as write_page
from tidegate_lab.experiments.demo import DemoPlan, RunRecord

_COLOURS: dict[str, Colour] = {"static-min": "orange", "static-peak": "grey", "tidegate": "blue"}
_OTHERS: tuple[Colour, ...] = ("orange", "grey", "green", "pink", "yellow", "sky")
_BIN_S = 1.0


def write_report(plan: DemoPlan, records: list[RunRecord], out: Path) -> Path:
    """Write report.html; return its path. The journals of the runs are in the same folder."""
    journals = [path for record in records if (path := out / f"{record.name}.db").is_file()]
    return write_page(journals[::-1], out, "Tidegate: the demonstration", compare(plan, records))


def compare(plan: DemoPlan, records: list[RunRecord]) -> Comparison:
    """Load, backlog, latency against the objective, and executors on one time axis, with a table and what was done."""
    text = (
        f"WordCount with a look-up. The load goes from {plan.peak.base:g} to {plan.peak.peak:g} rows/s and back. "
        f"Objective: a row is done within {plan.objective_s:g} s of its arrival. All runs get the same rows; a row "
        "that is unfinished at the end counts as over the objective."
    )
    return Comparison(
        "One load, three ways to size it" if len(records) == 3 else "One load, several ways to size it",
        text,
        [_table(records), *_charts(plan, records), _decisions(records)],
    )


def _charts(plan: DemoPlan, records: list[RunRecord]) -> list[Lines]:
    grid = np.arange(0.0, plan.duration_s, _BIN_S)
    time_s = [float(value) for value in grid]
    load = [round(float(value), 1) for value in plan.load.rows_per_s(grid)]
    objective = Line("objective", [plan.objective_s] * len(grid), "grey", dashed=True)
    named = [(record, _colour(record.name, place)) for place, record in enumerate(records)]
    wide = {record.name: record.name == "tidegate" for record in records}
    backlog = [Line(record.name, _held(record.times_s, record.backlog, grid), colour, wide=wide[record.name])
               for record, colour in named]  # fmt: skip
    latency = [Line(record.name, _p99_by_arrival(record, grid), colour, wide=wide[record.name])
               for record, colour in named]  # fmt: skip
    executors = [Line(record.name, _held(record.times_s, record.executors, grid), colour, step=True,
                      wide=wide[record.name]) for record, colour in named]  # fmt: skip
    return [
        Lines(
            "Load", "rows per second, the same in every run", "rows/s", time_s, [Line("load", load, "sky", fill=True)]
        ),
        Lines("Backlog", "rows that have arrived and are not done", "rows", time_s, backlog),
        Lines("Latency", "99th percentile of the rows that arrived in each second", "s", time_s, [*latency, objective]),
        Lines("Executors", "requested or registered, whichever is more", "", time_s, executors),
    ]


def _colour(name: str, place: int) -> Colour:
    return _COLOURS.get(name, _OTHERS[place % len(_OTHERS)])


def _held(times_s: np.ndarray, values: np.ndarray, grid: np.ndarray) -> list[float | None]:
    """The newest value at each time of the grid; None before the first and after the last."""
    place = np.searchsorted(times_s, grid, side="right") - 1
    last_s = times_s[-1] if len(times_s) else -1.0
    return [
        float(values[at]) if at >= 0 and time_s <= last_s + _BIN_S else None
        for at, time_s in zip(place, grid, strict=True)
    ]


def _p99_by_arrival(record: RunRecord, grid: np.ndarray) -> list[float | None]:
    """The 99th percentile of the rows that arrived in each second."""
    edges = np.searchsorted(record.arrivals_s, [*grid, grid[-1] + _BIN_S])
    return [
        round(float(np.quantile(record.latencies_s[first:end], 0.99)), 3) if end > first else None
        for first, end in pairwise(edges)
    ]


def _table(records: list[RunRecord]) -> TextTable:
    heads = ["run", "p50", "p99", "over the objective", "executor-seconds", "rows in", "rows out", "lost", "doubled"]
    rows = []
    for record in records:
        result = record.result
        rows.append(
            [
                record.name,
                f"{result.p50_s:.2f} s",
                f"{result.p99_s:.2f} s",
                f"{result.violation_rate:.2%}",
                f"{result.executor_seconds:.0f}",
                str(result.rows_in),
                str(result.rows_out),
                str(result.rows_lost),
                str(result.rows_doubled),
                str(result.reconfigurations),
            ]
        )
    return TextTable("", [*heads, "changes"], rows)


def _decisions(records: list[RunRecord]) -> TextTable:
    rows = [[f"{time_s:.0f} s", what, why] for record in records for time_s, what, why in record.decisions]
    return TextTable("What Tidegate did, and why", ["time", "change", "reason"], rows, folded=True)
