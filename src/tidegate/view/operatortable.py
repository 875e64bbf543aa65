"""The operators of an application as terminal tables of 80 columns: load, rows and costs, and where their tasks ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidegate.evaluate.bottleneck import (
    ApplicationMetrics,
    BottleneckKind,
    BottleneckTime,
    OperatorMetrics,
    bottleneck_time,
    worst_operator,
)
from tidegate.evaluate.profiles import OperatorProfile
from tidegate.plan.operators.migration import MigrationTable

_BAR = 10
_BUSY, _OVERLOADED = 0.2, 0.8
_UNKNOWN = "–"
_LOAD = "operator", "tasks", "busy", "execute", "process", "capacity", "comm.", "skew"
_ROWS = "rows of a batch", "in", "out", "sent", "select.", "failed", "state", "commit"
_COSTS = "cost of a row", "slot time", "CPU", "network", "sustains", "state size"


def render_operators(metrics: ApplicationMetrics, profiles: Sequence[OperatorProfile], slots: int) -> RenderableType:
    """Render the application's operators in stage order, with the bottleneck marked."""
    worst = worst_operator(metrics, slots)

    def marked(name: str) -> str:
        return "bold red" if name == worst.operator else ""

    load, rows, costs = _table(_LOAD), _table(_ROWS), _table(_COSTS)
    for operator in metrics.operators:
        time = bottleneck_time(operator, slots)
        load.add_row(*map(Text, _load_cells(operator, time, worst)), style=marked(operator.name))
        rows.add_row(*map(Text, _row_cells(operator)), style=marked(operator.name))
    for profile in profiles:
        costs.add_row(*map(Text, _cost_cells(profile)), style=marked(profile.name))
    driver = metrics.driver
    latency = seconds(metrics.process_latency_s), seconds(metrics.process_latency_p99_s)
    lines = (
        f"{metrics.name}: {metrics.rows_per_s:,.0f} rows/s, batch {seconds(metrics.batch_s)}, "
        f"execute latency {seconds(metrics.execute_latency_s)}, process latency {latency[0]} (p99 {latency[1]})",
        f"driver: planning {seconds(driver.planning_s)}, offsets {seconds(driver.offsets_s)}, "
        f"log {seconds(driver.log_s)}, sink {seconds(driver.sink_s)}; "
        f"bottleneck {worst.operator} ({worst.kind}, {seconds(worst.time_s)})",
    )
    return Group(Text(lines[0], style="bold"), load, Text(), rows, Text(), costs, Text(), Text(lines[1]))


def _table(columns: Sequence[str]) -> Table:
    """The operators' names take what the figures leave of the width; figures are never cut."""
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column(columns[0], overflow="fold")
    for heading in columns[1:]:
        made.add_column(heading, justify="left" if heading == "busy" else "right", no_wrap=True)
    return made


def render_migration(table: MigrationTable, only: Iterable[str] | None = None) -> Table:
    """The migration tables for a terminal, of some applications or of all."""
    shown = Table("application", "operator", "task", "N(k, v)", "P(k, v)", box=None, pad_edge=False)
    wanted = None if only is None else set(only)
    for move, hosts, ports in zip(table.moves, table.hosts, table.ports, strict=True):
        instance = move.instance
        if wanted is None or instance.application in wanted:
            cells = (instance.application, instance.operator, str(instance.task), _pair(hosts), _pair(ports))
            shown.add_row(*map(Text, cells))
    return shown


def _load_cells(operator: OperatorMetrics, time: BottleneckTime, worst: BottleneckTime) -> list[str]:
    share = time.time_s / worst.time_s if worst.time_s else 0.0
    return [
        operator.name,
        str(operator.parallelism),
        ("▒" if time.kind is BottleneckKind.COMMUNICATION else "█") * max(1, round(_BAR * share)),
        seconds(operator.execute_latency_s),
        seconds(operator.process_latency_s),
        f"{operator.capacity:.2f}{_warning(operator.capacity)}",
        seconds(operator.communication_s),
        _skew(operator),
    ]


def _row_cells(operator: OperatorMetrics) -> list[str]:
    return [
        operator.name,
        _known(operator.rows_in, count),
        _known(operator.rows_out, count),
        _known(operator.rows_transferred, count),
        _known(operator.selectivity, "{:.2f}".format),
        f"{operator.failed_tasks:.3g}",
        _known(operator.state_rows, count),
        seconds(operator.state_commit_s),
    ]


def _cost_cells(profile: OperatorProfile) -> list[str]:
    most = profile.sustainable_rows_per_s
    return [
        profile.name,
        _microseconds(profile.service_s_per_row),
        _known(profile.cpu_s_per_row, _microseconds),
        _known(profile.network_bytes_per_row, "{:,.0f} B".format),
        f"{count(most)} rows/s" if isfinite(most) else _UNKNOWN,
        _known(profile.memory_bytes, lambda size: f"{size / 2**20:,.1f} MB"),
    ]


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return _UNKNOWN if value is None else text(value)


def count(value: float) -> str:
    """Rows as text that stays short.

    >>> count(12.4), count(98_765.0), count(12_345_678.0)
    ('12', '98,765', '12.3M')
    """
    return f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:,.1f}M"


def _microseconds(value: float) -> str:
    return f"{value * 1e6:,.0f} µs"


def _warning(capacity: float) -> str:
    return " !!" if capacity > _OVERLOADED else " !" if capacity > _BUSY else ""


def _skew(operator: OperatorMetrics) -> str:
    """How much longer the slowest task took than the mean, and which one it was."""
    if operator.skew is None:
        return _UNKNOWN
    return f"{operator.skew:.1f}" + ("" if operator.slowest_task is None else f" (task {operator.slowest_task})")


def seconds(value: float | None) -> str:
    """A time as text, short ones in milliseconds."""
    if value is None:
        return _UNKNOWN
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"


def _pair(pair: tuple[str | None, str | None]) -> str:
    return f"({pair[0] or _UNKNOWN}, {pair[1] or _UNKNOWN})"
