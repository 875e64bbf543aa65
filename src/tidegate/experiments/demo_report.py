"""The demonstration's report: one page with its plots inside, that can be mailed around."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tidegate.experiments.demo import DemoPlan, RunRecord

_COLOURS = {"static-min": "#b3553c", "static-peak": "#7a7a7a", "tidegate": "#1f6f8b"}
_BIN_S = 1.0


def write_report(plan: DemoPlan, records: list[RunRecord], out: Path) -> Path:
    """Write report.html and demo.png; return the page's path."""
    figure = draw(plan, records)
    figure.savefig(out / "demo.png", dpi=110)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    plt.close(figure)
    page = _PAGE.format(
        objective=f"{plan.objective_s:g}",
        base=f"{plan.load.base:g}",
        peak=f"{plan.load.peak:g}",
        rows=_rows(records),
        picture=base64.b64encode(picture.getvalue()).decode(),
        decisions=_decisions(records),
    )
    path = out / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def draw(plan: DemoPlan, records: list[RunRecord]) -> Figure:
    """Load, backlog, latency against the objective, and executors with the decisions marked, on one time axis."""
    figure, axes = plt.subplots(4, 1, figsize=(10, 10), sharex=True, constrained_layout=True)
    load, backlog, latency, executors = axes
    grid = np.arange(0, plan.duration_s, 0.5)
    load.fill_between(grid, plan.load.rows_per_s(grid), color="#c9d6df", linewidth=0)
    load.set_ylabel("load\n(rows/s)")
    for record in records:
        colour = _COLOURS.get(record.name)
        backlog.plot(record.times_s, record.backlog, label=record.name, color=colour)
        times_s, p99_s = _p99_by_arrival(record)
        latency.plot(times_s, p99_s, label=record.name, color=colour)
        executors.step(record.times_s, record.executors, where="post", label=record.name, color=colour)
        for time_s, what, _ in record.decisions:
            executors.axvline(time_s, color=colour, alpha=0.35, linestyle=":")
            executors.annotate(what.split("→")[-1].strip(), (time_s, 0.3), color=colour, fontsize=8, ha="center")
    backlog.set_ylabel("backlog\n(rows)")
    latency.axhline(plan.objective_s, color="black", linestyle="--", linewidth=1)
    latency.annotate("objective", (0, plan.objective_s), va="bottom", fontsize=8)
    latency.set_ylabel("p99 latency by\narrival (s)")
    executors.set_ylabel("executors")
    executors.set_ylim(bottom=0)
    executors.set_xlabel("seconds")
    backlog.legend(loc="upper left", frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _p99_by_arrival(record: RunRecord) -> tuple[list[float], list[float]]:
    """The 99th percentile of the rows that arrived in each second."""
    bins = np.floor(record.arrivals_s / _BIN_S).astype(int)
    edges = np.flatnonzero(np.diff(bins, prepend=-1))
    times_s, quantiles = [], []
    for first, end in zip(edges, [*edges[1:], len(bins)], strict=True):
        times_s.append(float(bins[first] * _BIN_S))
        quantiles.append(float(np.quantile(record.latencies_s[first:end], 0.99)))
    return times_s, quantiles


def _rows(records: list[RunRecord]) -> str:
    cells = []
    for record in records:
        result = record.result
        values = [
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
        cells.append("<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in values) + "</tr>")
    return "\n".join(cells)


def _decisions(records: list[RunRecord]) -> str:
    lines = [
        f"<li><b>{time_s:.0f} s</b> {html.escape(what)} <span>because {html.escape(why)}</span></li>"
        for record in records
        for time_s, what, why in record.decisions
    ]
    return "\n".join(lines) or "<li>none</li>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tidegate: the demonstration</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; width: 100%; }} td, th {{ padding: .35rem .6rem; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }} tr + tr {{ border-top: 1px solid #ddd; }}
img {{ width: 100%; }} li span {{ color: #666; }}
</style></head><body>
<h1>One load, three ways to size it</h1>
<p>WordCount with a look-up. The load goes from {base} to {peak} rows/s and back. Objective: a row is done within
{objective} s of its arrival. The same rows in every run; a row unfinished at the end counts as late.</p>
<table><tr><th>run</th><th>p50</th><th>p99</th><th>late rows</th><th>executor-seconds</th><th>rows in</th>
<th>rows out</th><th>lost</th><th>doubled</th><th>changes</th></tr>
{rows}
</table>
<img alt="Load, backlog, latency and executors over time" src="data:image/png;base64,{picture}">
<h2>What Tidegate did</h2>
<ul>{decisions}</ul>
</body></html>
"""
