"""Plots a walk: the samples, their forecasts, and the interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tidegate.evaluate.forecast.walk import ForecastWalk

_LAST_ROWS = 600


def draw_walk(walk: ForecastWalk, warmup: int, path: Path, title: str = "") -> Path:
    """The last rows, and beyond them the forecasts without an outcome yet."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = len(walk.values)
    first = max(warmup, rows - _LAST_ROWS)
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shown = np.arange(first, rows)
    axes.plot(shown, walk.values[first:], color="black", linewidth=0.9, label="value")
    aimed = shown + walk.horizon
    axes.plot(aimed, walk.mean[first:], color="tab:blue", linewidth=1.1, label=f"forecast {walk.horizon} rows before")
    axes.fill_between(
        aimed, walk.lower[first:], walk.upper[first:], color="tab:blue", alpha=0.2, linewidth=0, label="90 % interval"
    )
    axes.set_xlabel("row")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
