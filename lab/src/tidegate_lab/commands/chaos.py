"""`tidegate chaos`: injects faults into running jobs, and counts every row afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tidegate.cli import output

if TYPE_CHECKING:
    from rich.table import Table


def chaos(
    minutes: Annotated[
        float, typer.Option(min=0.5, help="How long to inject faults. Starting and counting take extra time.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of the faults and their victims.")] = 1,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Inject faults while stateful jobs read from a Kafka broker and write to a transactional sink on this machine.

    Kills and freezes executors, Python workers, the driver, the controller and the broker, fills the journal's disk,
    and cuts the network. From 6 minutes on it also hits the hosts and the centre of a fleet. Then every row is
    counted. The exit code is 1 if a row is lost or doubled, or if the jobs did not recover from a fault. Logs and sinks
    are in --out (default: out/chaos).

    Example: tidegate chaos --minutes 10 --seed 3 --json
    """
    from tidegate_lab.experiments.chaos import Plan, run

    folder = out or Path("out") / "chaos"
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.console, transient=True) as progress:
        bar = progress.add_task("chaos", total=60.0 * minutes)

        def told(what: str, played_s: float) -> None:
            progress.update(bar, completed=played_s, description=what)

        found = run(Plan(minutes, seed), folder, told)
    if json:
        output.print_json(found)
    else:
        output.console.print(_table(found))
        for kind, reason in found["left_out"].items():
            typer.echo(f"skipped: {kind} ({reason})")
        lost, doubled, overlaps = found["rows_lost"], found["rows_doubled"], found["overlaps"]
        typer.echo(f"{found['rows_in']} rows in: {lost} lost, {doubled} doubled; {overlaps} overlaps")
    if not _held(found):
        sys.exit(1)


def _held(found: dict[str, Any]) -> bool:
    recovered = all(fault["recovered_s"] is not None for fault in found["faults"])
    return recovered and not (found["rows_lost"] or found["rows_doubled"] or found["overlaps"])


def _table(found: dict[str, Any]) -> Table:
    table = output.table("fault", "at", "recovered after", "control away")
    for fault in found["faults"]:
        hurt = "not recovered" if fault["recovered_s"] is None else f"{fault['recovered_s']:.1f} s"
        table.add_row(fault["kind"], f"{fault['at_s']:.0f} s", hurt, f"{fault['control_gap_s']:.1f} s")
    return table
