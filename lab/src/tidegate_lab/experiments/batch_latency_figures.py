"""The pictures of `batch_latency`, after the paper's figures 5 – 11."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from tidegate.analysis.correlation import Correlations, Pair
from tidegate.analysis.report.figures import draw_heat_map, png
from tidegate_lab.experiments.batch_latency_results import TABLE_METRICS

Part = Mapping[str, Any]


def draw_all(document: Part, correlations: Correlations | None, out: Path) -> list[Path]:
    """Every picture that the run has data for, and the table of all correlations."""
    parts: dict[str, Part] = {str(document["workload"]): document, **document["workloads"]}
    paths = [
        draw_latency(document, document.get("fixed_tasks"), out / "latency.png"),
        draw_throughput(parts, out / "throughput.png"),
    ]
    if any(part["congestion"] for part in parts.values()):
        paths.append(draw_congestion(parts, out / "congestion.png"))
    if correlations is not None:
        paths.append(draw_table(correlations, out / "correlations.png"))
        (out / "heat-map.png").write_bytes(png(draw_heat_map(correlations, correlations.names)))
        paths += [out / "heat-map.png", write_pairs(correlations, out / "correlations.csv")]
    return paths


def draw_latency(part: Part, fixed: Part | None, path: Path) -> Path:
    """Figures 5 and 6: median and longest complete latency over rows per batch, a line per executors."""
    panels = [("one task per slot, median", part, "latency_s"), ("one task per slot, longest", part, "latency_max_s")]
    if fixed:
        panels.append(("tasks fixed, median", fixed, "latency_s"))
    figure = _figure(3.6 * len(panels), 3.4)
    for axes, (title, source, key) in zip(_row(figure, len(panels)), panels, strict=True):
        cells = source["complete_latency"]
        for executors in sorted({cell["executors"] for cell in cells}):
            chosen = sorted((c["rows_per_batch"], c[key]) for c in cells if c["executors"] == executors)
            label = f"{executors} executors" if executors > 1 else "1 executor"
            axes.plot(*zip(*chosen, strict=True), marker="o", markersize=3, label=label)
        axes.set(xscale="log", yscale="log", xlabel="rows per batch", title=title)
        for axis in (axes.xaxis, axes.yaxis):  # seconds and rows, not powers of ten
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
        axes.set_ylabel("complete latency (s)")
        axes.legend(frameon=False, fontsize=8)
    return _saved(figure, path)


def draw_throughput(parts: Mapping[str, Part], path: Path) -> Path:
    """Figure 7: maximum rows per second by executors."""
    figure = _figure(5.0, 3.4)
    (axes,) = _row(figure, 1)
    for name, part in parts.items():
        found = [(each["executors"], each["rows_per_s"]) for each in part["max_throughput"]]
        axes.plot(*zip(*found, strict=True), marker="o", markersize=4, label=name)
    axes.set(xlabel="executors", ylabel="maximum rows per second", ylim=(0, None))
    axes.set_xticks(sorted({each["executors"] for part in parts.values() for each in part["max_throughput"]}))
    axes.legend(frameon=False, fontsize=8)
    return _saved(figure, path)


def draw_congestion(parts: Mapping[str, Part], path: Path) -> Path:
    """Figures 8 and 9: latency, throughput and the operators' capacity against the input rate, a row per workload."""
    shown = {name: part["congestion"] for name, part in parts.items() if part["congestion"]}
    figure = _figure(10.5, 2.6 * len(shown))
    grid = figure.subplots(len(shown), 3, squeeze=False)
    for (latency, throughput, capacity), (name, rates) in zip(grid, shown.items(), strict=True):
        rate = [each["rate_rows_per_s"] for each in rates]
        latency.plot(rate, [each["latency_s"] for each in rates], marker="o", markersize=3, label="median")
        latency.plot(rate, [each["latency_p99_s"] for each in rates], marker="o", markersize=3, label="99 %")
        latency.set(ylabel=f"{name}\nrow latency (s)", ylim=(0, None))
        throughput.plot(rate, rate, color="grey", linestyle="--", linewidth=1, label="all of it")
        throughput.plot(rate, [each["throughput_rows_per_s"] for each in rates], marker="o", markersize=3)
        throughput.set(ylabel="rows out per second", ylim=(0, None))
        for operator in rates[-1]["capacity"]:
            values = [each["capacity"].get(operator, np.nan) for each in rates]
            capacity.plot(rate, values, marker="o", markersize=3, label=operator)
        capacity.set(ylabel="capacity in use", ylim=(0, 1.05))
        for axes in (latency, throughput, capacity):
            axes.set_xlabel("rows in per second")
            axes.legend(frameon=False, fontsize=7)
            _plain(axes)
    return _saved(figure, path)


def draw_table(correlations: Correlations, path: Path) -> Path:
    """Figure 10: Spearman's coefficients with 95 % intervals; a star marks the significant, after the correction."""
    names = [name for name in TABLE_METRICS if name in correlations.names]
    places = [correlations.names.index(name) for name in names]
    found = correlations.spearman
    figure = _figure(1.9 + 0.92 * len(names), 1.4 + 0.42 * len(names))
    (axes,) = _row(figure, 1)
    shown = np.tril(np.nan_to_num(found.r[np.ix_(places, places)]), -1)
    axes.imshow(shown, cmap="RdBu_r", vmin=-1.6, vmax=1.6, aspect="auto")
    for row, i in enumerate(places):
        for column, j in enumerate(places[:row]):
            if np.isfinite(found.r[i, j]):
                text = f"{found.r[i, j]:.2f}{'*' if found.significant[i, j] else ''}"
                interval = f"{found.low[i, j]:.2f} … {found.high[i, j]:.2f}"
                axes.text(column, row, f"{text}\n{interval}", ha="center", va="center", fontsize=6)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    return _saved(figure, path)


def write_pairs(correlations: Correlations, path: Path) -> Path:
    """All pairs, the strongest first."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Pair)])
        writer.writeheader()
        writer.writerows(asdict(pair) for pair in correlations.pairs())
    return path


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _row(figure: Figure, count: int) -> Sequence[Axes]:
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for each in axes:
        _plain(each)
    return axes


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    return path
