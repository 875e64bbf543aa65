"""The operators of an application as a terminal table, with their load, and where their tasks ran."""

from __future__ import annotations

from collections.abc import Iterable

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
from tidegate.plan.operators.migration import MigrationTable

_BAR = 16
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


def render_operators(metrics: ApplicationMetrics, slots: int) -> RenderableType:
    """Render the application's operators in stage order, with the bottleneck marked."""
    worst = worst_operator(metrics, slots)
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for operator in metrics.operators:
        time = bottleneck_time(operator, slots)
        style = "bold red" if operator.name == worst.operator else ""
        table.add_row(*(Text(cell, style=style) for cell in _cells(operator, time, worst)))
    driver = metrics.driver
    latency = seconds(metrics.process_latency_s), seconds(metrics.process_latency_p99_s)
    lines = (
        f"{metrics.name}: {metrics.rows_per_s:,.0f} rows/s, batch {seconds(metrics.batch_s)}, "
        f"execute latency {seconds(metrics.execute_latency_s)}, process latency {latency[0]} (p99 {latency[1]})",
        f"driver: planning {seconds(driver.planning_s)}, offsets {seconds(driver.offsets_s)}, "
        f"log {seconds(driver.log_s)}, sink {seconds(driver.sink_s)}; "
        f"bottleneck {worst.operator} ({worst.kind}, {seconds(worst.time_s)})",
    )
    return Group(Text(lines[0], style="bold"), table, Text(lines[1]))


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
        ("▒" if time.kind is BottleneckKind.COMMUNICATION else "█") * max(1, round(_BAR * share)),
        seconds(operator.execute_latency_s),
        seconds(operator.process_latency_s),
        _UNKNOWN if operator.rows_in is None else f"{operator.rows_in:,.0f}",
        _UNKNOWN if service_s is None else f"{service_s * 1e6:,.0f} µs",
        _UNKNOWN if operator.selectivity is None else f"{operator.selectivity:.2f}",
        f"{operator.capacity:.2f}{_warning(operator.capacity)}",
        seconds(operator.communication_s),
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
    return rows if operator.state_commit_s is None else f"{rows}, commit {seconds(operator.state_commit_s)}"


def seconds(value: float | None) -> str:
    """A time as text, short ones in milliseconds."""
    if value is None:
        return _UNKNOWN
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"


def _pair(pair: tuple[str | None, str | None]) -> str:
    return f"({pair[0] or _UNKNOWN}, {pair[1] or _UNKNOWN})"
