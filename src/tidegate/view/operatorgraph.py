"""The operators of an application as a graph, coloured by their load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tidegate.evaluate.bottleneck import (
    ApplicationMetrics,
    BottleneckKind,
    BottleneckTime,
    OperatorMetrics,
    bottleneck_time,
    worst_operator,
)
from tidegate.view.operatortable import seconds

_HALF_BOX = 0.42

Edges = Sequence[tuple[str, str]]
"""Which operator feeds which; by default one after the other."""


def draw_operators(metrics: ApplicationMetrics, slots: int, path: Path, edges: Edges | None = None) -> Path:
    """The graph with a box for every operator, coloured by its bottleneck time, dashed where it communicates."""
    names = [operator.name for operator in metrics.operators]
    links = list(pairwise(names)) if edges is None else list(edges)
    places = _layers(names, links)
    worst = worst_operator(metrics, slots)
    wide, high = max(x for x, _ in places.values()) + 1, max(y for _, y in places.values()) + 1
    figure = Figure(figsize=(2.1 * wide + 0.3, 1.5 * high + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for source, target in links:
        (x0, y0), (x1, y1) = places[source], places[target]
        arrow = {"arrowstyle": "->", "color": "0.4", "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=(x1 - _HALF_BOX, -y1), xytext=(x0 + _HALF_BOX, -y0), arrowprops=arrow)
    for operator in metrics.operators:
        _draw_box(axes, operator, bottleneck_time(operator, slots), worst, places[operator.name])
    axes.set_xlim(-0.5, wide - 0.5)
    axes.set_ylim(0.5 - high, 0.5)
    axes.set_axis_off()
    figure.suptitle(
        f"{metrics.name}: {metrics.rows_per_s:,.0f} rows/s, a batch takes {metrics.batch_s:.2f} s, of it "
        f"{metrics.batch_s - metrics.execute_latency_s:.2f} s on the driver",
        fontsize=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def _layers(names: Sequence[str], links: Edges) -> Mapping[str, tuple[int, int]]:
    """Column: the longest way from a source; row: the order of the stages within it.

    >>> _layers(["a", "b", "c", "d"], [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    {'a': (0, 0), 'b': (1, 0), 'c': (1, 1), 'd': (2, 0)}
    """
    column: dict[str, int] = {}
    taken: dict[int, int] = {}
    places = {}
    for name in names:
        column[name] = max((column[source] + 1 for source, target in links if target == name), default=0)
        places[name] = column[name], taken.get(column[name], 0)
        taken[column[name]] = places[name][1] + 1
    return places


def _draw_box(
    axes: Axes, operator: OperatorMetrics, time: BottleneckTime, worst: BottleneckTime, place: tuple[int, int]
) -> None:
    share = time.time_s / worst.time_s if worst.time_s else 0.0
    text = (
        f"{operator.name} ×{operator.parallelism}\n{seconds(operator.execute_latency_s)} a batch\n"
        f"capacity {operator.capacity:.2f}, {time.kind}"
    )
    look = {
        "boxstyle": "round,pad=0.5",
        "facecolor": colormaps["OrRd"](0.1 + 0.45 * share),
        "edgecolor": "black" if operator.name == worst.operator else "0.5",
        "linewidth": 2.0 if operator.name == worst.operator else 1.0,
        "linestyle": "--" if time.kind is BottleneckKind.COMMUNICATION else "-",
    }
    axes.text(place[0], -place[1], text, ha="center", va="center", fontsize=8, bbox=look)
