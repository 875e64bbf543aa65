"""`tidegate demo`: the main job with and without Tidegate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli import output

if TYPE_CHECKING:
    from rich.table import Table

    from tidegate_lab.experiments.demo import RunRecord


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A shorter load: under five minutes.")] = False,
    find_static: Annotated[
        bool,
        typer.Option("--find-static", help="Run every fixed pool size instead, to find the smallest that works."),
    ] = False,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Run WordCount under a load peak: on a small fixed pool, on one that meets the objective, and under Tidegate.

    Writes report.html, the journals and Spark's log to --out (default: out/demo).

    Example: tidegate demo --quick
    """
    from tidegate.adapters.spark.java import require_java

    require_java()
    from tidegate_lab.experiments import demo as experiment
    from tidegate_lab.experiments.demo_report import write_report
    from tidegate_lab.experiments.demo_view import DemoView

    folder = out or Path("out") / "demo"
    plan = experiment.QUICK if quick else experiment.FULL
    sizes: dict[str, int | None] = dict(experiment.STATIC_SIZES)
    if find_static:
        sizes = {f"static-{size}": size for size in range(1, experiment.MOST_EXECUTORS + 1)}
    output.console.print(f"starting an embedded Spark cluster (its log: {folder / 'spark.log'})")
    with output.jvm_output_to(folder / "spark.log"):
        spark = experiment.start_cluster()
    try:
        with DemoView(plan, list(sizes), output.console) as view:
            records = [experiment.run_once(spark, plan, name, size, folder, view) for name, size in sizes.items()]
    finally:
        spark.stop()
    report = write_report(plan, records, folder)
    if json:
        output.print_json(experiment.to_json(plan, records))
        return
    typer.echo(f"\nobjective: a row is done within {plan.objective_s:g} s of its arrival")
    output.console.print(_table(records))
    typer.echo(f"report:  {report}")
    if not find_static:
        typer.echo(f"reasons: tidegate explain {folder / 'tidegate.db'}")
        typer.echo(f"console: tidegate console {folder / 'tidegate.db'}")


def _table(records: list[RunRecord]) -> Table:
    table = output.table("run", "p50", "p99", "violations", "executor-s", "rows", "lost", "doubled", "changes")
    for record in records:
        result = record.result
        table.add_row(
            record.name,
            f"{result.p50_s:.1f} s",
            f"{result.p99_s:.1f} s",
            f"{result.violation_rate:.1%}",
            f"{result.executor_seconds:.0f}",
            str(result.rows_in),
            str(result.rows_lost),
            str(result.rows_doubled),
            str(result.reconfigurations),
        )
    return table
