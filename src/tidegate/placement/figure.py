"""A schedule as a figure: load stacked per host against its capacity, as in Figures 6 and 7 of Melnik et al."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .problem import Problem
from .schedule import Schedule

COLUMNS = 4


def draw_schedule(
    problem: Problem, schedule: Schedule, path: Path, resource: str | None = None, title: str = ""
) -> Path:
    """One panel per used host: the load of its tasks over time, stacked, and the capacity as a line."""
    at = problem.resources.index(resource) if resource else 0
    used = [h for h, host in enumerate(problem.hosts) if host.name in set(schedule.assignment.values())]
    rows = math.ceil(len(used) / COLUMNS)
    figure = Figure(figsize=(3.2 * COLUMNS, 2.2 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    steps = np.arange(problem.demand.shape[2])
    for panel, h in enumerate(used):
        axes = figure.add_subplot(rows, COLUMNS, panel + 1)
        name = problem.hosts[h].name
        tasks = [i for i, task in enumerate(problem.tasks) if schedule.assignment[task.name] == name]
        signals = [problem.demand[i, at] for i in tasks]
        if len(steps) == 1:  # a constant has no time axis: draw it as wide as a step
            axes.stackplot([0, 1], [np.repeat(signal, 2) for signal in signals])
        else:
            axes.stackplot(steps, signals, labels=[problem.tasks[i].name for i in tasks])
        capacity = float(problem.capacity[h, at])
        axes.axhline(capacity, color="black", linewidth=1.2, linestyle="--")
        axes.set_ylim(0, 1.12 * max(capacity, float(np.sum(signals, axis=0).max())))
        axes.set_title(f"{name}: {', '.join(problem.tasks[i].name for i in tasks[:5])}", fontsize=8)
        axes.tick_params(labelsize=7)
    measures = f"{schedule.used_hosts} hosts (bound {schedule.lower_bound}), utilisation {schedule.utilisation:.1%}"
    figure.suptitle(f"{title}: {measures}" if title else measures, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
