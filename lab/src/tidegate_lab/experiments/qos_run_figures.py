"""The paper's Figures 1, 3, 4 and 5 for the runs of a QoS experiment on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from tidegate_lab.experiments.qos_classes import QosRun
from tidegate_lab.experiments.qos_plan import CLASSES, OBJECTIVES_S, QosPlan

_BIN_S = 5.0


def figures(plan: QosPlan, runs: Sequence[QosRun], folder: Path) -> list[Path]:
    """Draw all four; the paths written."""
    return [
        draw_response(plan, runs, folder / "figure1-response.png"),
        draw_traffic(plan, runs, folder / "figure3-p99.png"),
        draw_throughput(plan, runs, folder / "figure4-throughput.png"),
        draw_violations(plan, runs, folder / "figure5-violations.png"),
    ]


def draw_response(plan: QosPlan, runs: Sequence[QosRun], path: Path) -> Path:
    """Figure 1: p99 of the rows that arrived in each five seconds, per class, one panel a run."""
    figure = _figure(4.2 * len(runs), 3.4)
    begin_s, end_s = plan.spans_s["burst"]
    edges_s = np.arange(0.0, plan.end_s + 1e-9, _BIN_S)
    shared: Axes | None = None
    for panel, run in enumerate(runs):
        axes = figure.add_subplot(1, len(runs), panel + 1, sharey=shared)
        shared = shared or axes
        axes.axvspan(begin_s, end_s, color="0.92")
        for qos_class in CLASSES:
            bins = [run.latencies(qos_class, (edge_s, edge_s + _BIN_S)) for edge_s in edges_s[:-1]]
            p99_s = [float(np.quantile(found, 0.99)) if len(found) else np.nan for found in bins]
            axes.plot(edges_s[:-1] + _BIN_S / 2, p99_s, label=f"{qos_class} (objective {OBJECTIVES_S[qos_class]:g} s)")
        axes.set_title(run.name)
        axes.set_xlabel("arrival, s")
    if shared is not None:
        shared.set_yscale("log")
        for formatting in (shared.yaxis.set_major_formatter, shared.yaxis.set_minor_formatter):
            formatting(StrMethodFormatter("{x:g}"))  # seconds, not powers of ten
        shared.set_ylabel("p99 response, s")
        shared.legend(fontsize=7)
    return _save(figure, path)


def draw_traffic(plan: QosPlan, runs: Sequence[QosRun], path: Path) -> Path:
    """Figure 3: p99 per class under each kind of traffic, run beside run; dashes are the objectives."""
    phases = [phase for phase in ("low", "middle", "high", "burst") if phase in plan.spans_s]
    figure = _figure(3.2 * len(phases), 3.2)
    for panel, phase in enumerate(phases):
        axes = figure.add_subplot(1, len(phases), panel + 1)
        found = {run.name: run.figures(plan.spans_s[phase]) for run in runs}
        _bars(axes, {name: [document[one]["p99_s"] for one in CLASSES] for name, document in found.items()})
        for at, qos_class in enumerate(CLASSES):
            axes.hlines(OBJECTIVES_S[qos_class], at - 0.45, at + 0.45, color="black", linestyle="--", linewidth=1)
        axes.set_title(phase)
        if panel == 0:
            axes.set_ylabel("p99, s")
            axes.legend(fontsize=7)
    return _save(figure, path)


def draw_throughput(plan: QosPlan, runs: Sequence[QosRun], path: Path) -> Path:
    """Figure 4: rows done per second before and in the burst, stacked by class."""
    phases = [phase for phase in ("before", "burst") if phase in plan.spans_s]
    figure = _figure(3.6 * len(phases), 3.2)
    for panel, phase in enumerate(phases):
        axes = figure.add_subplot(1, len(phases), panel + 1)
        below = np.zeros(len(runs))
        found = [run.figures(plan.spans_s[phase]) for run in runs]
        for qos_class in CLASSES:
            rates = np.array([one[qos_class]["throughput_share"] * one["throughput_rows_per_s"] for one in found])
            axes.bar([run.name for run in runs], rates, bottom=below, label=qos_class)
            below += rates
        axes.set_title(phase)
        if panel == 0:
            axes.set_ylabel("rows done per second")
            axes.legend(fontsize=7)
    return _save(figure, path)


def draw_violations(plan: QosPlan, runs: Sequence[QosRun], path: Path) -> Path:
    """Figure 5: the share of rows over the objective of their class, in the burst."""
    figure = _figure(4.4, 3.2)
    axes = figure.add_subplot()
    found = {run.name: run.figures(plan.spans_s["burst"]) for run in runs}
    _bars(axes, {name: [document[one]["violation_rate"] for one in CLASSES] for name, document in found.items()})
    axes.set_ylabel("over the objective in the burst")
    axes.legend(fontsize=7)
    return _save(figure, path)


def _bars(axes: Axes, groups: dict[str, list[float]]) -> None:
    width = 0.9 / len(groups)
    for at, (name, values) in enumerate(groups.items()):
        axes.bar(np.arange(len(CLASSES)) + (at - (len(groups) - 1) / 2) * width, values, width, label=name)
    axes.set_xticks(range(len(CLASSES)), CLASSES)


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
