"""The pictures of the report."""

from __future__ import annotations

import io
from datetime import datetime

import matplotlib

from tidegate.domain.python310 import UTC

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidegate.analysis.anomalies import Anomaly
from tidegate.analysis.correlation import Correlations
from tidegate.analysis.factors import Factors
from tidegate.analysis.learning import Replay
from tidegate.analysis.study import Study
from tidegate.history.metrictable import MetricTable

_INK, _RED, _GREY = "#1f6f8b", "#b3553c", "#7a7a7a"
_MOST_HEAT = 40
_CURVES = (
    ("latency\n(s)", ("latency_p50_s", "latency_p99_s", "batch_duration_s")),
    ("rate\n(rows/s)", ("input_rows_per_s", "throughput_rows_per_s")),
    ("backlog\n(rows)", ("backlog_rows",)),
    ("slots busy\n(share)", ("utilisation",)),
    ("executors", ("executors",)),
)


def png(figure: Figure) -> bytes:
    """The picture as PNG; the figure is closed."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    plt.close(figure)
    return picture.getvalue()


def draw_heat_map(correlations: Correlations, names: tuple[str, ...]) -> Figure:
    """Rank correlations of at most forty metrics, similar ones side by side; a dot marks what is not significant."""
    places = [correlations.names.index(name) for name in _ordered(correlations, names)[:_MOST_HEAT]]
    shown = np.ix_(places, places)
    r = correlations.spearman.r[shown]
    side = 2.6 + 0.27 * len(places)
    figure, axis = plt.subplots(figsize=(side + 1.0, side), constrained_layout=True)
    image = axis.imshow(r, cmap="RdBu_r", vmin=-1, vmax=1)
    weak = ~correlations.spearman.significant[shown] & ~np.eye(len(places), dtype=bool)
    rows, columns = np.nonzero(weak)
    axis.scatter(columns, rows, s=4, color="#555555", linewidths=0)
    labels = [correlations.names[place] for place in places]
    axis.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8)
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    figure.colorbar(image, ax=axis, label="Spearman's ρ", shrink=0.7)
    return figure


def _ordered(correlations: Correlations, names: tuple[str, ...]) -> list[str]:
    """Order metrics by the angle between the first two eigenvectors, so that similar ones are neighbours."""
    places = [correlations.names.index(name) for name in names]
    r = np.nan_to_num(correlations.spearman.r[np.ix_(places, places)], nan=0.0)
    if len(places) < 3:
        return list(names)
    _, vectors = np.linalg.eigh(r)
    order = np.argsort(np.arctan2(vectors[:, -2], vectors[:, -1]))
    return [names[at] for at in order]


def draw_curves(table: MetricTable, anomalies: tuple[Anomaly, ...]) -> Figure | None:
    """Latency, rates, backlog and resources over time, abnormal stretches shaded."""
    panels = [
        (label, [name for name in names if table.has(name) and table.column(name).any()]) for label, names in _CURVES
    ]
    panels = [(label, names) for label, names in panels if names]
    if not panels or len(table) < 2:
        return None
    figure, grid = plt.subplots(
        len(panels), 1, figsize=(10, 1.9 * len(panels) + 0.5), sharex=True, constrained_layout=True, squeeze=False
    )
    minutes = (table.times_s - table.times_s[0]) / 60
    for axis, (label, names) in zip(grid[:, 0], panels, strict=True):
        for name, colour in zip(names, (_INK, _RED, _GREY), strict=False):
            axis.plot(minutes, table.column(name), color=colour, linewidth=1, label=name)
        for anomaly in anomalies:
            if anomaly.metric in names:
                _shade(axis, anomaly, table.times_s[0])
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        _legend_above(axis)
    grid[-1, 0].set_xlabel(f"minutes since {_clock(table.times_s[0])}")
    _plain(list(grid[:, 0]))
    return figure


def draw_predictions(table: MetricTable, replays: tuple[Replay, ...]) -> Figure | None:
    """What came, and what had been predicted for it."""
    if not replays:
        return None
    figure, grid = plt.subplots(
        len(replays), 1, figsize=(10, 2.1 * len(replays) + 0.4), sharex=True, constrained_layout=True, squeeze=False
    )
    for axis, found in zip(grid[:, 0], replays, strict=True):
        kept = _prepared_rows(table, len(found.predicted))
        minutes = (table.times_s[kept] - table.times_s[0]) / 60
        axis.plot(minutes, table.column(found.target)[kept], color=_GREY, linewidth=1, label="measured")
        axis.plot(minutes, found.predicted, color=_INK, linewidth=1, label=f"predicted {found.horizon} batches before")
        for drift in found.drifts:
            axis.axvline(minutes[min(drift, len(minutes) - 1)], color=_RED, linestyle=":")
        axis.set_ylabel(found.target, fontsize=8)
        _legend_above(axis)
    grid[-1, 0].set_xlabel("minutes")
    _plain(list(grid[:, 0]))
    return figure


def draw_factors(factors: Factors) -> Figure:
    """The eigenvalues against those of noise, and the loadings."""
    figure, (scree, loadings) = plt.subplots(
        1,
        2,
        figsize=(10, 1.6 + 0.24 * len(factors.names)),
        constrained_layout=True,
        width_ratios=[2, 3],
    )
    numbers = np.arange(1, len(factors.eigenvalues) + 1)
    scree.plot(numbers, factors.eigenvalues, marker="o", markersize=3, color=_INK, label="data")
    scree.plot(numbers, factors.random_eigenvalues, color=_RED, linestyle="--", label="noise, 95 %")
    scree.set_xlabel("factor")
    scree.set_ylabel("eigenvalue")
    scree.legend(frameon=False, fontsize=8)
    order = np.lexsort((-np.abs(factors.loadings).max(axis=1), np.abs(factors.loadings).argmax(axis=1)))
    image = loadings.imshow(factors.loadings[order], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    loadings.set_yticks(range(len(order)), [factors.names[at] for at in order], fontsize=8)
    loadings.set_xticks(range(factors.count), [f"F{number}" for number in range(1, factors.count + 1)])
    figure.colorbar(image, ax=loadings, label="loading")
    _plain([scree])
    return figure


def draw_profiles(found: Study) -> Figure | None:
    """Busy slot-seconds against rows for every operator, with the line that was fitted."""
    operators = found.profile.operators[:8]
    if not operators:
        return None
    columns = min(4, len(operators))
    height = -(-len(operators) // columns)
    figure, grid = plt.subplots(
        height, columns, figsize=(2.7 * columns + 0.4, 2.4 * height), constrained_layout=True, squeeze=False
    )
    for axis, operator in zip(grid.ravel(), operators, strict=False):
        rows = found.table.column(f"{operator.operator}.rows_in")
        axis.scatter(rows, found.table.column(f"{operator.operator}.busy_s"), s=5, color=_GREY, linewidths=0)
        ends = np.array([0.0, float(np.nanmax(rows))])
        axis.plot(ends, operator.batch_s + operator.row_s * ends, color=_INK)
        axis.set_title(operator.operator, fontsize=9)
        axis.set_xlabel("rows", fontsize=8)
        axis.set_ylabel("busy slot-s", fontsize=8)
    for axis in grid.ravel()[len(operators) :]:
        axis.set_visible(False)
    _plain(list(grid.ravel()))
    return figure


def _prepared_rows(table: MetricTable, count: int) -> slice:
    """Predictions leave cold batches out, which come first."""
    return slice(len(table) - count, None)


def _shade(axis: Axes, anomaly: Anomaly, origin_s: float) -> None:
    first, last = (anomaly.from_s - origin_s) / 60, (anomaly.until_s - origin_s) / 60
    axis.axvspan(first - 0.02, last + 0.02, color=_RED, alpha=0.25, linewidth=0)


def _legend_above(axis: Axes) -> None:
    axis.legend(loc="lower left", bbox_to_anchor=(0.0, 0.98), frameon=False, fontsize=8, ncols=3, borderpad=0.0)


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC") if time_s > 1e8 else "the start"


def _plain(axes: list[Axes]) -> None:
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
