"""Figures of placement: load stacked per host against its capacity (the paper's Figures 6 and 7), and convergence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tidegate.placement import Problem, Schedule

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


def draw_convergence(histories: Mapping[str, Sequence[float]], path: Path, ylabel: str = "fitness") -> Path:
    """Best value so far against the iteration, one line per search; a logarithmic scale where all values allow it."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, history in histories.items():
        axes.plot(np.arange(len(history)), history, label=name)
    if all(min(history) > 0 for history in histories.values()):
        axes.set_yscale("log")
    axes.set_xlabel("iteration")
    axes.set_ylabel(ylabel)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def draw_closing(progress: Mapping[str, Sequence[tuple[int, int]]], bound: int, path: Path) -> Path:
    """Hosts in use against evaluations spent, with the lower bound that ends the search."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, steps in progress.items():
        axes.step([spent for spent, _ in steps], [hosts for _, hosts in steps], where="post", label=name)
    axes.axhline(bound, color="black", linestyle="--", linewidth=1, label="lower bound")
    axes.set_xlabel("evaluations")
    axes.set_ylabel("hosts in use")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
