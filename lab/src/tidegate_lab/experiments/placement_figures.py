"""Figures of placement: how the searches converge, and how the hosts in use close in on the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


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
