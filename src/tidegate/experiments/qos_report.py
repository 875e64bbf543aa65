"""Service classes as tables: what each has delivered, and the figures of the experiments on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from tidegate.monitor.violations import ClassReport


def class_table(reports: Iterable[ClassReport]) -> Table:
    """One row per class, the most important first.

    >>> class_table([ClassReport("q1", 0.3, 0.05, 100.0, 0.01, 0.0, 0.02, 0.4, 0, None)]).row_count
    1
    """
    table = Table("class", "delay", "rows", "late", "last window", "worst window", "bound", "worst p99", "incidents")
    for each in reports:
        table.add_row(
            each.name,
            f"{each.latency_s:g} s",
            f"{each.rows:.0f}",
            f"{each.late_share:.2%}",
            f"{each.window_share:.2%}",
            f"{each.worst_share:.2%}",
            f"{each.bound:.0%}",
            f"{each.worst_p99_s:.2f} s",
            str(each.incidents),
        )
    return table


def class_document(reports: Iterable[ClassReport]) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [asdict(each) for each in reports]


def scale_tables(document: Mapping[str, Any]) -> list[Table]:
    """A table per scenario: late rows and p99 of every class under every policy."""
    tables = []
    for scenario, policies in document["scenarios"].items():
        table = Table("class", *(f"{policy}: late, p99" for policy in policies), title=scenario)
        for name in next(iter(policies.values())):
            cells = [f"{each[name]['violations']:.2%}, {each[name]['p99_s']:.3f} s" for each in policies.values()]
            table.add_row(name, *cells)
        tables.append(table)
    return tables


def cost_table(document: Mapping[str, Any]) -> Table:
    table = Table("applications", "median", "p99", "of the interval", title="one control step, CPU")
    for each in document["steps"]:
        share = each["step_ms_p50"] / 1e3 / document["interval_s"]
        table.add_row(
            f"{each['applications']}", f"{each['step_ms_p50']:.2f} ms", f"{each['step_ms_p99']:.2f} ms", f"{share:.2%}"
        )
    return table


def sensitivity_table(document: Mapping[str, Any]) -> Table:
    table = Table("forecast", "p99", "p99 change", "late rows", "change, points", title="against a perfect forecast")
    rows = [(f"error {each['error']:.0%}", each) for each in document["errors"]]
    rows += [(f"error {each['error']:.0%}, all alike", each) for each in document["common"] if each["error"]]
    rows += [("none (last value)", document["reactive"]), ("online ARIMA", document["arima"])]
    for name, each in rows:
        table.add_row(
            name,
            f"{each['p99_s']:.2f} s",
            f"{each['p99_change']:+.1%}",
            f"{each['violations']:.2%}",
            f"{each['violation_change']:+.2f}",
        )
    return table
