"""Draws a simulation over time: what was recorded of every application, host and pool, one panel a column."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from tidegate.sim.result import SimulationResult, Table

_MOST_LINES = 12


def draw_timelines(result: SimulationResult, path: Path) -> Path:
    """One panel per recorded column; beyond a dozen lines only their mean and range are shown."""
    tables = [
        (title, table)
        for title, table in (
            ("application", result.applications),
            ("host", result.hosts),
            ("application", result.pool_applications),
            ("pool", result.pool),
        )
        if table is not None
    ]
    panels = [(title, table, column) for title, table in tables for column in table.columns]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(9, 1.9 * len(panels)), sharex=True, constrained_layout=True, squeeze=False
    )
    for axis, (title, table, column) in zip(axes[:, 0], panels, strict=True):
        _panel(axis, table, column)
        axis.set_ylabel(f"{title}\n{column}", fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("simulated seconds")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _panel(axis: Axes, table: Table, column: str) -> None:
    values = table.columns[column]
    if len(table.names) > _MOST_LINES:
        middle, low, high = np.nanmean(values, axis=1), np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        axis.fill_between(table.time_s, low, high, alpha=0.25, linewidth=0)
        axis.plot(table.time_s, middle, label=f"mean and range of {len(table.names)}")
    else:
        for index, name in enumerate(table.names):
            axis.plot(table.time_s, values[:, index], label=name, linewidth=1.2)
    axis.legend(loc="upper left", fontsize=7, frameon=False, ncols=4)
