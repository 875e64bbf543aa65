"""Figures of multi-level elasticity: response time, replicas and active hosts over the days."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tidegate.adapters.sim.fleet import FleetSpec
from tidegate.adapters.sim.fleet_kernel import Floats
from tidegate_lab.experiments.multilevel_fleet import FleetTimeline

DAY_S = 86_400.0
_WINDOW = 10  # minutes to a point


def draw_courses(timelines: Mapping[str, FleetTimeline], spec: FleetSpec, path: Path) -> Path:
    """One line per variant."""
    return _draw(timelines, spec, path, "ways of steering the same fleet under the same load")


def draw_policies(timelines: Mapping[str, FleetTimeline], spec: FleetSpec, path: Path) -> Path:
    """One line per local policy, both levels elastic."""
    return _draw(timelines, spec, path, "local policies, both levels elastic")


def _draw(timelines: Mapping[str, FleetTimeline], spec: FleetSpec, path: Path, title: str) -> Path:
    figure = Figure(figsize=(10, 9), layout="constrained")
    FigureCanvasAgg(figure)
    load, response, tasks, hosts = figure.subplots(4, 1, sharex=True, height_ratios=(1, 2, 2, 2))
    objectives = np.array([app.objective_s for app in spec.applications])
    for position, (name, line) in enumerate(timelines.items()):
        days = _blocks(np.array(line.time_s) / DAY_S).max(axis=1)
        if position == 0:
            load.plot(days, _blocks(np.array(line.rows_per_s)).mean(axis=1), color="grey")
        # The slowest row of every minute; if none left, nothing waited either.
        worst = (np.maximum(0.0, np.array(line.latency_s)) / objectives).mean(axis=1)
        response.plot(days, _blocks(worst).mean(axis=1), label=name, linewidth=0.8, alpha=0.8)
        tasks.plot(days, _blocks(np.array(line.tasks).sum(axis=1)).mean(axis=1), label=name, linewidth=1)
        hosts.plot(days, _blocks(np.array(line.hosts).sum(axis=1)).mean(axis=1), label=name, linewidth=1)
    response.axhline(1.0, color="black", linestyle="--", linewidth=1)
    response.set_yscale("log")
    for axes, label in (
        (load, "rows/s"),
        (response, "response ÷ objective"),
        (tasks, "tasks"),
        (hosts, "active hosts"),
    ):
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    tasks.set_ylim(bottom=0)
    hosts.set_ylim(bottom=0)
    hosts.set_xlabel("days")
    hosts.legend(loc="lower right", ncols=4, fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _blocks(values: Floats) -> Floats:
    """Ten minutes to a row."""
    whole = len(values) // _WINDOW * _WINDOW
    blocks: Floats = np.asarray(values[:whole], dtype=np.float64).reshape(-1, _WINDOW)
    return blocks
