"""Experiments that are computed or simulated, and need no Java."""

from __future__ import annotations

from typing import Any

from tidegate.cli import output
from tidegate_lab.commands.reproduce.bars import counted
from tidegate_lab.commands.reproduce.options import Options


def run_table1(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments.table1 import figures, table1

    with counted("table 1") as told:
        document = table1(options.samples, options.seed, told)
    for family, rows in document["families"].items():
        table = output.table(
            "operators × hosts", "bound", "R-Storm", "paper's GA", "Tidegate", "never worse", title=family
        )
        for row in rows:
            hosts = [f"{row['schedulers'][who]['used_hosts']:.2f}" for who in ("rstorm", "paper-ga", "tidegate")]
            size = f"{row['operators']} × {row['hosts']}"
            table.add_row(size, f"{row['lower_bound']:.2f}", *hosts, "yes" if row["never_worse"] else "NO")
        output.console.print(table)
    if options.out is not None:
        for path in figures(options.seed, options.out):
            output.console.print(f"written: {path}")
    return document


def run_four_signals(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import four_signals

    document = four_signals.run(seed=options.seed, out=options.out)
    output.console.print(f"pairs after the last schedule: {document['pairs'][-1]}")
    return document


def run_qos_scale(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_report, qos_scale

    with counted("classes") as told:
        document = qos_scale.run(options.seed, options.out, told)
    for table in qos_report.scale_tables(document):
        output.console.print(table)
    return document


def run_overhead(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_report, step_overhead

    with counted("steps") as told:
        document = step_overhead.run(options.seed, options.out, told)
    output.console.print(qos_report.cost_table(document))
    return document


def run_sensitivity(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_report, sensitivity

    with counted("forecast errors") as told:
        document = sensitivity.run(options.seed, options.out, told)
    output.console.print(qos_report.sensitivity_table(document))
    return document


def run_multilevel(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import multilevel

    with counted("multilevel") as told:
        document = multilevel.run(options.seed, options.out, told)
    columns = ("", "utilisation", "mean s", "p99 s", "violations", "host-h", "changes", "down s", "cost")
    for title, key in (("levels", "simulated"), ("local policies, both levels", "policies")):
        table = output.table(*columns, title=title)
        for name, found in document[key].items():
            table.add_row(
                name,
                f"{found['utilisation']:.3f}",
                f"{found['mean_s']:.3f}",
                f"{found['p99_s']:.2f}",
                f"{found['violation_rate']:.2%}",
                f"{found['host_hours']:.0f}",
                str(found["reconfigurations"]),
                f"{found['downtime_s']:.0f}",
                f"{found['cost']:.4f}",
            )
        output.console.print(table)
    return document
