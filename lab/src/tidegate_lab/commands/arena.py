"""`tidegate arena`: compares autoscalers in the simulator."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidegate.cli import output


def arena(
    load: Annotated[
        list[str] | None,
        typer.Option(help="A load by name, or FILE[:column] of a CSV file with counts; repeatable."),
    ] = None,
    rivals: Annotated[str | None, typer.Option(help="Names, separated by commas. Default: all.")] = None,
    query: Annotated[str, typer.Option(help="q1, q2, q3, q5, q8 or q11.")] = "q1",
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per load. Default: 2, or 1 with --quick.")] = None,
    compress: Annotated[
        float | None, typer.Option(help="Play loads faster by this factor. Default: 1, or 12 for weeks.")
    ] = None,
    step_s: Annotated[float | None, typer.Option(help="Seconds per row of a file without timestamps.")] = None,
    peak_executors: Annotated[int, typer.Option(min=2, help="Executors that the peak of each load needs.")] = 8,
    objective_s: Annotated[float, typer.Option(help="Objective: a row is done within this many seconds.")] = 15.0,
    startup_s: Annotated[float, typer.Option(help="Seconds from requesting an executor to its registration.")] = 20.0,
    warmup_s: Annotated[float, typer.Option(help="How long a new executor works at half speed.")] = 20.0,
    best: Annotated[
        bool | None, typer.Option("--best/--defaults", help="Also play each rival with its best setting per load.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer loads, published defaults only.")] = False,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Run autoscalers on the same simulated cluster and loads. Compare latency and cost.

    Example: tidegate arena --load requests.csv:count --rivals tidegate,hpa-cpu --out out/arena
    """
    from tidegate_lab.arena.program import default_loads, given_loads
    from tidegate_lab.arena.setting import Setting
    from tidegate_lab.arena.standings import summary_table, winners_table
    from tidegate_lab.arena.tournament import chosen, hold_tournament

    setting = Setting(
        query=query,
        objective_s=objective_s,
        startup_s=startup_s,
        warmup_s=warmup_s,
        peak_executors=peak_executors,
    )
    names = chosen([name.strip() for name in rivals.split(",") if name.strip()] if rivals else None)
    runs = seeds or (1 if quick else 2)
    loads = given_loads(load, query, runs, compress, step_s) if load else default_loads(query, runs, compress, quick)
    grid = best if best is not None else not quick
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.console, transient=True) as progress:
        bar = progress.add_task("arena", total=len(loads) * len(names))

        def told(done: int, total: int, what: str) -> None:
            progress.update(bar, completed=done, total=total, description=what)

        tournament = hold_tournament(setting, loads, names, grid=grid, cores=cores or os.cpu_count(), told=told)
    if out is not None:
        from tidegate_lab.arena.page import write_page

        output.console.print(f"written: {write_page(tournament, out)}")
    if json:
        output.print_json(tournament.to_dict())
        return
    screen = Console(highlight=False)
    screen.print(summary_table(tournament))
    screen.print()
    screen.print(winners_table(tournament))
    typer.echo("\nexecutor-seconds; + marks a rival with its best setting per load, chosen afterwards")
