"""A simulation over time: a chart for every figure that was recorded of its applications, hosts and pool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidegate.adapters.sim.result import ResultTable, SimulationResult
from tidegate.view.comparison import Colour, Comparison, Line, Lines, Unit
from tidegate.view.report import write_report

_MOST_LINES = 12
_MOST_TIMES = 1000
_COLOURS: tuple[Colour, ...] = ("blue", "orange", "green", "pink", "sky", "yellow", "grey")


def write_charts(result: SimulationResult, journals: list[Path], out: Path) -> Path:
    """Write report.html; return its path. If a controller ran, the panels of its journal follow."""
    summary = result.summary
    text = f"{summary['duration_s']:g} simulated seconds, seed {summary['seed']}."
    comparison = Comparison(str(summary["name"]), text, list(charts(result)))
    return write_report(journals, out, f"Tidegate: {summary['name']}", comparison)


def charts(result: SimulationResult) -> Iterator[Lines]:
    """One chart per recorded figure; beyond a dozen lines only their mean and range are shown."""
    for title, table in (
        ("applications", result.applications),
        ("hosts", result.hosts),
        ("pool, applications", result.pool_applications),
        ("pool", result.pool),
    ):
        if table is None or not len(table.time_s):
            continue
        every = -(-len(table.time_s) // _MOST_TIMES)
        times_s = [float(value) for value in table.time_s[::every]]
        for column in table.columns:
            unit: Unit = "s" if column.endswith("_s") else ""
            name = column.removesuffix("_s").replace("_", " ").capitalize()
            yield Lines(name, title, unit, times_s, list(_lines(table, column, every)))


def _lines(table: ResultTable, column: str, every: int) -> Iterator[Line]:
    values = table.columns[column][::every]
    if len(table.names) > _MOST_LINES:
        known = np.where(np.isnan(values).all(axis=1, keepdims=True), 0.0, values)
        yield Line(f"mean of {len(table.names)}", _plain(np.nanmean(known, axis=1)), "blue", wide=True)
        yield Line("lowest", _plain(np.nanmin(known, axis=1)), "sky")
        yield Line("highest", _plain(np.nanmax(known, axis=1)), "orange")
        return
    for place, name in enumerate(table.names):
        dashed = place >= len(_COLOURS)
        yield Line(name, _plain(values[:, place]), _COLOURS[place % len(_COLOURS)], dashed=dashed)


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
