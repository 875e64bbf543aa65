"""The operators of an application as a terminal table and as a graph, with their load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidegate.evaluate.bottleneck import (
    ApplicationMetrics,
    BottleneckTime,
    Kind,
    OperatorMetrics,
    bottleneck_time,
    worst_operator,
)
from tidegate.plan.operators.migration import MigrationTable

_BAR = 16
_HALF_BOX = 0.42
_BUSY, _OVERLOADED = 0.2, 0.8
_UNKNOWN = "–"
_COLUMNS = (
    "operator",
    "tasks",
    "busy",
    "execute",
    "process",
    "rows in",
    "service",
    "select.",
    "capacity",
    "comm.",
    "skew",
    "state",
)

Edges = Sequence[tuple[str, str]]
"""Which operator feeds which; by default one after the other."""


def render_operators(metrics: ApplicationMetrics, slots: int) -> RenderableType:
    """Render the application's operators in stage order, with the bottleneck marked."""
    worst = worst_operator(metrics, slots)
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for operator in metrics.operators:
        time = bottleneck_time(operator, slots)
        style = "bold red" if operator.name == worst.operator else ""
        table.add_row(*(Text(cell, style=style) for cell in _cells(operator, time, worst)))
    driver = metrics.driver
    latency = _seconds(metrics.process_latency_s), _seconds(metrics.process_latency_p99_s)
    lines = (
        f"{metrics.name}: {metrics.rows_per_s:,.0f} rows/s, batch {_seconds(metrics.batch_s)}, "
        f"execute latency {_seconds(metrics.execute_latency_s)}, process latency {latency[0]} (p99 {latency[1]})",
        f"driver: planning {_seconds(driver.planning_s)}, offsets {_seconds(driver.offsets_s)}, "
        f"log {_seconds(driver.log_s)}, sink {_seconds(driver.sink_s)}; "
        f"bottleneck {worst.operator} ({worst.kind}, {_seconds(worst.time_s)})",
    )
    return Group(Text(lines[0], style="bold"), table, Text(lines[1]))


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


def render_migration(table: MigrationTable, only: Iterable[str] | None = None) -> Table:
    """The migration tables for a terminal, of some applications or of all."""
    shown = Table("application", "operator", "task", "N(k, v)", "P(k, v)", box=None, pad_edge=False)
    wanted = None if only is None else set(only)
    for move, hosts, ports in zip(table.moves, table.hosts, table.ports, strict=True):
        instance = move.instance
        if wanted is None or instance.application in wanted:
            shown.add_row(instance.application, instance.operator, str(instance.task), _pair(hosts), _pair(ports))
    return shown


def _cells(operator: OperatorMetrics, time: BottleneckTime, worst: BottleneckTime) -> list[str]:
    share = time.time_s / worst.time_s if worst.time_s else 0.0
    service_s = operator.service_s_per_row
    return [
        operator.name,
        str(operator.parallelism),
        ("▒" if time.kind is Kind.COMMUNICATION else "█") * max(1, round(_BAR * share)),
        _seconds(operator.execute_latency_s),
        _seconds(operator.process_latency_s),
        _UNKNOWN if operator.rows_in is None else f"{operator.rows_in:,.0f}",
        _UNKNOWN if service_s is None else f"{service_s * 1e6:,.0f} µs",
        _UNKNOWN if operator.selectivity is None else f"{operator.selectivity:.2f}",
        f"{operator.capacity:.2f}{_warning(operator.capacity)}",
        _seconds(operator.communication_s),
        _skew(operator),
        _state(operator),
    ]


def _warning(capacity: float) -> str:
    return " !!" if capacity > _OVERLOADED else " !" if capacity > _BUSY else ""


def _skew(operator: OperatorMetrics) -> str:
    if operator.skew is None:
        return _UNKNOWN
    return f"{operator.skew:.1f}" + ("" if operator.slowest_task is None else f" (task {operator.slowest_task})")


def _state(operator: OperatorMetrics) -> str:
    if not operator.stateful:
        return _UNKNOWN
    rows = _UNKNOWN if operator.state_rows is None else f"{operator.state_rows:,} rows"
    return rows if operator.state_commit_s is None else f"{rows}, commit {_seconds(operator.state_commit_s)}"


def _seconds(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"


def _pair(pair: tuple[str | None, str | None]) -> str:
    return f"({pair[0] or _UNKNOWN}, {pair[1] or _UNKNOWN})"


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
        f"{operator.name} ×{operator.parallelism}\n{_seconds(operator.execute_latency_s)} a batch\n"
        f"capacity {operator.capacity:.2f}, {time.kind}"
    )
    look = {
        "boxstyle": "round,pad=0.5",
        "facecolor": colormaps["OrRd"](0.1 + 0.45 * share),
        "edgecolor": "black" if operator.name == worst.operator else "0.5",
        "linewidth": 2.0 if operator.name == worst.operator else 1.0,
        "linestyle": "--" if time.kind is Kind.COMMUNICATION else "-",
    }
    axes.text(place[0], -place[1], text, ha="center", va="center", fontsize=8, bbox=look)
