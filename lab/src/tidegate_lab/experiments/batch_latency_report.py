"""What `tidegate reproduce batch-latency` shows on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

Part = Mapping[str, Any]


def tables(document: Part) -> list[Table]:
    """The grid of every workload, then the rates."""
    parts: dict[str, Part] = {str(document["workload"]): document, **document["workloads"]}
    shown = [_grid(f"{name}: complete latency (s)", part) for name, part in parts.items()]
    if document["fixed_tasks"]:
        shown.append(_grid("wordcount, tasks fixed: complete latency (s)", document["fixed_tasks"]))
    return [*shown, _rates(parts)]


def _grid(title: str, part: Part) -> Table:
    cells = {(cell["rows_per_batch"], cell["executors"]): cell["latency_s"] for cell in part["complete_latency"]}
    columns = sorted({executors for _, executors in cells})
    table = Table("rows per batch", *(f"{n} executor{'s' if n > 1 else ''}" for n in columns), title=title)
    for rows in sorted({rows for rows, _ in cells}):
        table.add_row(str(rows), *(f"{cells[rows, n]:.2f}" if (rows, n) in cells else "–" for n in columns))
    most = {each["executors"]: each["rows_per_s"] for each in part["max_throughput"]}
    table.add_row("most rows/s", *(f"{most[n]:.0f}" if n in most else "–" for n in columns))
    return table


def _rates(parts: Mapping[str, Part]) -> Table:
    table = Table(
        "workload", "rows in/s", "rows out/s", "median (s)", "99 % (s)", "busiest operator", title="congestion"
    )
    for name, part in parts.items():
        for rate in part["congestion"]:
            busiest = max(rate["capacity"].items(), key=lambda item: item[1], default=("–", 0.0))
            table.add_row(
                name,
                f"{rate['rate_rows_per_s']:.0f}",
                f"{rate['throughput_rows_per_s']:.0f}",
                f"{rate['latency_s']:.2f}",
                f"{rate['latency_p99_s']:.2f}",
                f"{busiest[0]} {busiest[1]:.2f}",
            )
    return table
