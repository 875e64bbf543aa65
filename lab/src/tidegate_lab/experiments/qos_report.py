"""The figures of the experiments on service classes as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def scale_tables(document: Mapping[str, Any]) -> list[Table]:
    """Return a table per scenario: violations and p99 of every class under every policy."""
    tables = []
    for scenario, policies in document["scenarios"].items():
        table = Table("class", *(f"{policy}: late, p99" for policy in policies), title=scenario)
        for name in next(iter(policies.values())):
            cells = [f"{each[name]['violations']:.2%}, {each[name]['p99_s']:.3f} s" for each in policies.values()]
            table.add_row(name, *cells)
        tables.append(table)
    return tables


def cost_table(document: Mapping[str, Any]) -> Table:
    columns = ("applications", "CPU median", "p99", "clock median", "p99", "of the interval", "rolled out")
    table = Table(*columns, title="one control step")
    for each in document["steps"]:
        share = each["step_ms_p50"] / 1e3 / document["interval_s"]
        times = [f"{each[key]:.2f} ms" for key in ("step_ms_p50", "step_ms_p99", "wall_ms_p50", "wall_ms_p99")]
        table.add_row(f"{each['applications']}", *times, f"{share:.2%}", f"{each['rolled_out']:.1f}")
    return table


def sensitivity_table(document: Mapping[str, Any]) -> Table:
    table = Table("forecast", "p99", "p99 change", "violations", "change, points", title="against a perfect forecast")
    rows = [(f"error {each['error']:.0%}", each) for each in document["errors"]]
    rows += [(f"error {each['error']:.0%}, all alike", each) for each in document["common"] if each["error"]]
    rows += [("none (recent trend)", document["reactive"]), ("the forecaster in use", document["arima"])]
    for name, each in rows:
        table.add_row(
            name,
            f"{each['p99_s']:.2f} s",
            f"{each['p99_change']:+.1%}",
            f"{each['violations']:.2%}",
            f"{each['violation_change']:+.2f}",
        )
    return table
