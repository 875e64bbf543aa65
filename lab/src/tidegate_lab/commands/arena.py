"""`tidegate arena`: compares autoscalers in the simulator, or a few of them on Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidegate.cli import output
from tidegate.domain import InvalidInput

if TYPE_CHECKING:
    from tidegate_lab.arena.sparkprogram import SparkWishes
    from tidegate_lab.arena.tournament import Tournament


def arena(
    world: Annotated[
        Literal["sim", "spark"],
        typer.Option(help="sim: the simulator. spark: a few controllers on real executors, one load, in real time."),
    ] = "sim",
    load: Annotated[
        list[str] | None,
        typer.Option(help="A load by name, or FILE[:column] of a CSV file with counts; repeatable."),
    ] = None,
    rivals: Annotated[str | None, typer.Option(help="Names, separated by commas. Default: all.")] = None,
    query: Annotated[str, typer.Option(help="q1, q2, q3, q5, q8 or q11.")] = "q1",
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per load. Default: 2, or 1 with --quick.")] = None,
    compress: Annotated[
        float | None,
        typer.Option(help="Play loads faster by this factor. Default: 1; weeks 12, Spark's day 120."),
    ] = None,
    step_s: Annotated[float | None, typer.Option(help="Seconds per row of a file without timestamps.")] = None,
    peak_executors: Annotated[
        int | None, typer.Option(min=2, help="Executors that the peak of each load needs. Default: 8, on Spark 3.")
    ] = None,
    objective_s: Annotated[
        float | None, typer.Option(help="Objective: a row is done within this many seconds. Default: 15, on Spark 20.")
    ] = None,
    startup_s: Annotated[
        float | None, typer.Option(help="Seconds from requesting an executor to its registration. Default: 20.")
    ] = None,
    warmup_s: Annotated[
        float | None, typer.Option(help="How long a new executor works at half speed. Default: 20.")
    ] = None,
    best: Annotated[
        bool | None, typer.Option("--best/--defaults", help="Also play each rival with its best setting per load.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")] = None,
    cpus: Annotated[float | None, typer.Option(help="On Spark: CPU quota of an executor. Default: 0.4.")] = None,
    sizes: Annotated[
        str | None, typer.Option(help="On Spark: sizes of fixed pools that may be tried, such as 2,3. Default: all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer loads, published defaults only.")] = False,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Run autoscalers on the same cluster and loads. Compare latency and cost.

    With --world spark, executors are real and have a CPU quota each, and every run takes as long as its load.

    Example: tidegate arena --load requests.csv:count --rivals tidegate,hpa-cpu --out out/arena
    """
    names = [name.strip() for name in rivals.split(",") if name.strip()] if rivals else None
    simulated = {"--seeds": seeds, "--best": best, "--cores": cores, "--startup-s": startup_s, "--warmup-s": warmup_s}
    if world == "spark":
        _refuse({**simulated, "--query": None if query == "q1" else query}, "sim")
        from tidegate_lab.arena.sparkprogram import SparkWishes

        wishes = SparkWishes(load, names, _numbers(sizes), cpus, compress, step_s, peak_executors, objective_s, quick)
        _on_spark(wishes, out or Path("out") / "arena", json)
        return
    _refuse({"--cpus": cpus, "--sizes": sizes}, "spark")
    from tidegate_lab.arena.program import default_loads, given_loads
    from tidegate_lab.arena.setting import Setting
    from tidegate_lab.arena.standings import summary_table, winners_table
    from tidegate_lab.arena.tournament import chosen, hold_tournament

    usual = Setting()
    setting = Setting(
        query=query,
        peak_executors=peak_executors or usual.peak_executors,
        objective_s=usual.objective_s if objective_s is None else objective_s,
        startup_s=usual.startup_s if startup_s is None else startup_s,
        warmup_s=usual.warmup_s if warmup_s is None else warmup_s,
    )
    playing = chosen(names)
    runs = seeds or (1 if quick else 2)
    loads = given_loads(load, query, runs, compress, step_s) if load else default_loads(query, runs, compress, quick)
    grid = best if best is not None else not quick
    with _progress(MofNCompleteColumn()) as progress:
        bar = progress.add_task("arena", total=len(loads) * len(playing))

        def told(done: float, total: float, what: str) -> None:
            progress.update(bar, completed=done, total=total, description=what)

        tournament = hold_tournament(setting, loads, playing, grid=grid, cores=cores or os.cpu_count(), told=told)
    if out is not None:
        _write(tournament, out)
    if json:
        output.print_json(tournament.to_dict())
        return
    screen = Console(highlight=False)
    screen.print(summary_table(tournament))
    screen.print()
    screen.print(winners_table(tournament))
    typer.echo("\nexecutor-seconds; + marks a rival with its best setting per load, chosen afterwards")


def _on_spark(wishes: SparkWishes, folder: Path, json: bool) -> None:
    from tidegate.adapters.spark.java import require_java
    from tidegate_lab.arena.sparkmeasure import measure
    from tidegate_lab.arena.sparkprogram import CPUS, longest_s, play_on_spark, row_work, with_simulation
    from tidegate_lab.arena.standings import runs_table, worlds_table

    plan = wishes.plan()
    require_java()
    folder.mkdir(parents=True, exist_ok=True)
    work = row_work(wishes.cpus or CPUS)
    how = f"{work.cpus:g} CPUs each" if work.cpus is not None else "no CPU quota: rows wait for a look-up instead"
    output.console.print(
        f"{plan.setting.max_executors} executors at most, {how}; up to {plan.most_runs} runs, about "
        f"{longest_s(plan) / 60:.0f} min; Spark's log: {folder / 'spark.log'}"
    )
    output.console.print("measuring what an executor can do and how long it takes to start (2 min)")
    with output.jvm_output_to(folder / "spark.log"):
        measured = measure(work)
    plan = wishes.plan(measured)
    with _progress() as progress:
        bar = progress.add_task("arena", total=plan.most_runs)

        def told(done: float, total: float, what: str) -> None:
            progress.update(bar, completed=done, total=total, description=what)

        tournament = play_on_spark(plan, work, measured, folder, told)
        _write(tournament, folder)  # an hour's work, whatever comes next
        told(plan.most_runs, plan.most_runs, "the same in the simulator")
        tournament = with_simulation(tournament, plan)
    _write(tournament, folder)
    if json:
        output.print_json(tournament.to_dict())
        return
    setting = tournament.setting
    typer.echo(f"objective: a row is done within {setting.objective_s:g} s of its arrival, at most 1 % later")
    typer.echo(f"a new executor registered after {setting.startup_s:g} s and took part {setting.warmup_s:g} s later\n")
    screen = Console(highlight=False)
    screen.print(runs_table(tournament))
    screen.print()
    screen.print(worlds_table(tournament))


def _progress(*columns: MofNCompleteColumn) -> Progress:
    shown = (TextColumn("{task.description}"), BarColumn(), *columns, TimeElapsedColumn())
    return Progress(*shown, console=output.console, transient=True)


def _write(tournament: Tournament, folder: Path) -> None:
    from tidegate_lab.arena.page import write_page

    output.console.print(f"written: {write_page(tournament, folder)}")


def _refuse(given: dict[str, object], world: str) -> None:
    for option, value in given.items():
        if value is not None:
            raise InvalidInput(f"{option} has a meaning only with --world {world}")


def _numbers(text: str | None) -> Sequence[int]:
    try:
        return [int(word) for word in text.split(",")] if text else []
    except ValueError:
        raise InvalidInput(f"--sizes {text}: write numbers separated by commas, such as 2,3") from None
