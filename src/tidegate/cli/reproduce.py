"""`tidegate reproduce`: the papers' tables and figures, one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table

from tidegate.cli import output
from tidegate.domain import InvalidInput


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; each experiment takes what concerns it."""

    seed: int
    samples: int
    quick: bool
    full: bool
    out: Path | None


def reproduce(
    name: Annotated[str, typer.Argument(help="Which; without a known name the list is shown.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="table1: random samples per row.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter form, where there is one.")] = False,
    full: Annotated[bool, typer.Option("--full", help="batch-latency: the paper's whole grid.")] = False,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Reproduce a table or figure; docs/ has a page for each, with the difference from the paper.

    Simulated: table1, four-signals, qos-scale, overhead, sensitivity, multilevel.
    On Spark: mestream, qos-classes, qos-processes, batch-latency, fleet.

    Example: tidegate reproduce table1 --samples 3
    """
    if name not in _EXPERIMENTS:
        raise InvalidInput(f"reproduce {name!r}: use one of {', '.join(_EXPERIMENTS)}")
    document = _EXPERIMENTS[name](Options(seed, samples, quick, full, out))
    if json:
        output.print_json(document)


def _table1(options: Options) -> dict[str, Any]:
    from tidegate.experiments.table1 import figures, table1

    with _counted("table 1") as told:
        document = table1(options.samples, options.seed, told)
    for family, rows in document["families"].items():
        table = Table("operators × hosts", "bound", "R-Storm", "paper's GA", "Tidegate", "never worse", title=family)
        for row in rows:
            hosts = [f"{row['schedulers'][who]['used_hosts']:.2f}" for who in ("rstorm", "paper-ga", "tidegate")]
            size = f"{row['operators']} × {row['hosts']}"
            table.add_row(size, f"{row['lower_bound']:.2f}", *hosts, "yes" if row["never_worse"] else "NO")
        output.console.print(table)
    if options.out is not None:
        for path in figures(options.seed, options.out):
            output.console.print(f"written: {path}")
    return document


def _four_signals(options: Options) -> dict[str, Any]:
    from tidegate.experiments import four_signals

    document = four_signals.run(seed=options.seed, out=options.out)
    output.console.print(f"pairs after the last schedule: {document['pairs'][-1]}")
    return document


def _mestream(options: Options) -> dict[str, Any]:
    from tidegate.experiments import mestream, mestream_figures

    with _timed() as told:
        done = mestream.run(mestream.Plan(), options.out or Path("out/mestream"), told)
    document = mestream.to_json(done)
    output.console.print(mestream_figures.table(document))
    if options.out is not None:
        for path in mestream_figures.draw(done, options.out):
            output.console.print(f"written: {path}")
    return document


def _qos_scale(options: Options) -> dict[str, Any]:
    from tidegate.experiments import qos_report, qos_scale

    with _counted("classes") as told:
        document = qos_scale.run(options.seed, options.out, told)
    for table in qos_report.scale_tables(document):
        output.console.print(table)
    return document


def _overhead(options: Options) -> dict[str, Any]:
    from tidegate.experiments import qos_report, step_overhead

    with _counted("steps") as told:
        document = step_overhead.run(options.seed, options.out, told)
    output.console.print(qos_report.cost_table(document))
    return document


def _sensitivity(options: Options) -> dict[str, Any]:
    from tidegate.experiments import qos_report, sensitivity

    with _counted("forecast errors") as told:
        document = sensitivity.run(options.seed, options.out, told)
    output.console.print(qos_report.sensitivity_table(document))
    return document


def _qos_classes(options: Options) -> dict[str, Any]:
    from tidegate.experiments import qos_classes, qos_run_figures
    from tidegate.experiments.qos_plan import PLANS, shared_session

    folder, plan = options.out or Path("out/qos-classes"), PLANS["quick" if options.quick else "full"]
    output.console.print(f"starting Spark (its log: {folder / 'spark.log'})")
    with output.jvm_output_to(folder / "spark.log"):
        spark = shared_session("tidegate-qos")
    try:
        with _played(plan.end_s) as told:
            runs = qos_classes.run_all(spark, plan, folder, told)
    finally:
        spark.stop()
    document = qos_classes.to_json(plan, runs)
    output.console.print(_qos_table({run.name: document[run.name] for run in runs}))
    for path in qos_run_figures.figures(plan, runs, folder):
        output.console.print(f"written: {path}")
    return document


def _qos_processes(options: Options) -> dict[str, Any]:
    from tidegate.experiments import qos_processes
    from tidegate.experiments.qos_plan import PLANS

    with _played(PLANS["processes"].end_s) as told:
        runs = qos_processes.run_all("processes", options.out or Path("out/qos-processes"), told)
    document = qos_processes.to_json("processes", runs)
    output.console.print(_qos_table({run.name: document[run.name] for run in runs}))
    return document


def _qos_table(runs: dict[str, Any]) -> Table:
    table = Table("run", "class", "p50", "p99", "mean", "late", "share", "rows/s", title="in the burst")
    for name, figures in runs.items():
        for qos_class in ("q1", "q2", "q3"):
            one = figures[qos_class]
            table.add_row(
                name,
                qos_class,
                f"{one['p50_s']:.1f} s",
                f"{one['p99_s']:.1f} s",
                f"{one['mean_s']:.1f} s",
                f"{one['violation_rate']:.1%}",
                f"{one['throughput_share']:.0%}",
                f"{figures['throughput_rows_per_s']:.0f}",
            )
    return table


def _multilevel(options: Options) -> dict[str, Any]:
    from tidegate.experiments import multilevel

    with _counted("multilevel") as told:
        document = multilevel.run(options.seed, options.out, told)
    columns = ("", "utilisation", "mean s", "p99 s", "late", "host-hours", "changes", "downtime s", "cost")
    for title, key in (("levels", "simulated"), ("local policies, both levels", "policies")):
        table = Table(*columns, title=title)
        table.columns[0].no_wrap = True
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


def _fleet(options: Options) -> dict[str, Any]:
    from json import dumps

    from tidegate.experiments.fleet_figures import draw_run
    from tidegate.experiments.fleet_run import CENTRE_ONLY, OBJECTIVE_S, Course, play

    folder = options.out or Path("out/fleet-run")
    with output.console.status("starting the fleet") as status:
        found = play(folder, CENTRE_ONLY if options.quick else Course(), status.update)
    (folder / "fleet-run.json").write_text(dumps(found, indent=1))
    table = Table("application", "rows", "lost", "doubled", "late", "p99", "hosts", title="rows looked for, one by one")
    for name, rows in found["applications"].items():
        late = found["late_rows"][name]
        hosts = " → ".join(run["host"] for run in found["runs"][name])
        counts = (str(rows[key]) for key in ("rows_in", "rows_lost", "rows_doubled"))
        table.add_row(name, *counts, f"{late['late_share']:.1%}", f"{late['p99_s']:.1f} s", hosts)
    output.console.print(table)
    output.console.print(f"written: {draw_run(found.pop('samples'), OBJECTIVE_S, folder / 'fleet-run.png')}")
    return found


def _batch_latency(options: Options) -> dict[str, Any]:
    from tidegate.experiments import batch_latency
    from tidegate.experiments.batch_latency_plan import PLANS
    from tidegate.experiments.batch_latency_report import tables

    if options.quick and options.full:
        raise InvalidInput("batch-latency: use --quick or --full, not both")
    plan = PLANS["quick" if options.quick else "full" if options.full else "default"]
    folder = options.out or Path("out/batch-latency")
    with output.jvm_output_to(folder / "spark.log"):
        spark = batch_latency.start_cluster(plan)
    with _counted("batch latency") as told:
        document = batch_latency.run(plan, folder, told, spark)
    for table in tables(document):
        output.console.print(table)
    for name in document["files"]:
        output.console.print(f"written: {folder / name}")
    return document


_EXPERIMENTS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "table1": _table1,
    "four-signals": _four_signals,
    "mestream": _mestream,
    "qos-scale": _qos_scale,
    "overhead": _overhead,
    "sensitivity": _sensitivity,
    "multilevel": _multilevel,
    "qos-classes": _qos_classes,
    "qos-processes": _qos_processes,
    "batch-latency": _batch_latency,
    "fleet": _fleet,
}


@contextmanager
def _counted(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar for work that knows how much of it there is."""
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total, text: progress.update(bar, completed=done, total=total, description=text)


@contextmanager
def _timed() -> Iterator[Callable[[str, float], None]]:
    """A line for work that comes in phases of known length, for those who watch a live run."""
    with output.console.status("starting") as status:
        yield lambda phase, seconds: status.update(f"{phase} (up to {seconds:.0f} s)")


@contextmanager
def _played(end_s: float) -> Iterator[Callable[[str, float], None]]:
    """A bar for runs that play the same load one after the other."""
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task("warming up", total=end_s)
        yield lambda name, at_s: progress.update(bar, completed=max(0.0, at_s), description=name)
