"""`tidegate reproduce`: the papers' tables and figures, one function each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from tidegate.cli import output
from tidegate.domain import InvalidInput
from tidegate.domain.python310 import StrEnum

if TYPE_CHECKING:
    from rich.table import Table

    from tidegate_lab.experiments.model_check import Configuration


class World(StrEnum):
    """Where an experiment runs."""

    SIM = "sim"
    SPARK = "spark"


class Source(StrEnum):
    """Where the rows of an experiment come from."""

    TIDEGATE = "tidegate"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Options:
    """The command-line options. Each experiment uses those that concern it."""

    seed: int
    samples: int
    quick: bool
    full: bool
    out: Path | None
    world: str = "spark"
    runs: tuple[str, ...] = ()
    rate: float | None = None
    source: str = "tidegate"


def reproduce(
    name: Annotated[str, typer.Argument(help="Name of the experiment; an unknown name shows the list.")],
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="table1: random samples per row.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter form, if there is one.")] = False,
    full: Annotated[bool, typer.Option("--full", help="batch-latency: the paper's whole grid.")] = False,
    world: Annotated[World, typer.Option(help="together, model-check, twin: run on Spark or simulated.")] = World.SPARK,
    rate: Annotated[
        float | None, typer.Option(min=1.0, help="mestream: rows per second instead of the default.")
    ] = None,
    source: Annotated[Source, typer.Option(help="qos-classes: rows from our own source, or Kafka.")] = Source.TIDEGATE,
    only: Annotated[
        str, typer.Option(help="Comma-separated. together: only these runs; model-check: only these rows, from 1.")
    ] = "",
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Reproduce a table or figure. docs/ has a page for each, with the difference from the paper.

    Simulated: table1, four-signals, qos-scale, overhead, sensitivity, multilevel.
    On Spark: mestream, qos-classes, qos-processes, batch-latency, fleet, state-moves, kafka.
    On Spark, or simulated with --world sim: together, model-check, twin.

    Example: tidegate reproduce table1 --samples 3
    """
    if name not in _EXPERIMENTS:
        raise InvalidInput(f"reproduce {name!r}: use one of {', '.join(_EXPERIMENTS)}")
    began_s = time.time()
    document = _EXPERIMENTS[name](
        Options(seed, samples, quick, full, out, world.value, tuple(filter(None, only.split(","))), rate, source.value)
    )
    _report(name, out or Path("out") / name, began_s)
    if json:
        output.print_json(document)


def _report(name: str, folder: Path, began_s: float) -> None:
    """Write one report page from the journals of the experiment, if there are any."""
    from tidegate.view.book import journals_in_folders
    from tidegate.view.report import write_report

    journals = [path for path in journals_in_folders([folder]) if path.stat().st_mtime >= began_s]
    if journals:
        output.console.print(f"written: {write_report(journals, folder, f'Tidegate: {name}')}")


def _table1(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments.table1 import figures, table1

    with _counted("table 1") as told:
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


def _four_signals(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import four_signals

    document = four_signals.run(seed=options.seed, out=options.out)
    output.console.print(f"pairs after the last schedule: {document['pairs'][-1]}")
    return document


def _mestream(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import mestream, mestream_figures

    with _timed() as told:
        plan = mestream.Plan() if options.rate is None else mestream.Plan(rate=options.rate)
        done = mestream.run(plan, options.out or Path("out/mestream"), told)
    document = mestream.to_json(done)
    output.console.print(mestream_figures.table(document))
    if options.out is not None:
        for path in mestream_figures.draw(done, options.out):
            output.console.print(f"written: {path}")
    return document


def _qos_scale(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_report, qos_scale

    with _counted("classes") as told:
        document = qos_scale.run(options.seed, options.out, told)
    for table in qos_report.scale_tables(document):
        output.console.print(table)
    return document


def _overhead(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_report, step_overhead

    with _counted("steps") as told:
        document = step_overhead.run(options.seed, options.out, told)
    output.console.print(qos_report.cost_table(document))
    return document


def _sensitivity(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_report, sensitivity

    with _counted("forecast errors") as told:
        document = sensitivity.run(options.seed, options.out, told)
    output.console.print(qos_report.sensitivity_table(document))
    return document


def _qos_classes(options: Options) -> dict[str, Any]:
    from contextlib import ExitStack

    from tidegate_lab.experiments import qos_classes, qos_run_figures
    from tidegate_lab.experiments.kafka_broker import Broker, connector_jars
    from tidegate_lab.experiments.qos_plan import PLANS, shared_session
    from tidegate_lab.experiments.qos_topics import Topics

    folder, plan = options.out or Path("out/qos-classes"), PLANS["quick" if options.quick else "full"]
    output.console.print(f"starting Spark (its log: {folder / 'spark.log'})")
    with ExitStack() as stack:
        topics, jars = None, {}
        if options.source == Source.KAFKA:
            jars = {"spark.jars": ",".join(connector_jars())}
            topics = Topics(stack.enter_context(Broker(folder / "broker")).address)
        with output.jvm_output_to(folder / "spark.log"):
            spark = shared_session("tidegate-qos", jars)
        stack.callback(spark.stop)
        with _played(plan.end_s) as told:
            runs = qos_classes.run_all(spark, plan, folder, told, topics)
    document = qos_classes.to_json(plan, runs)
    output.console.print(_qos_table({run.name: document[run.name] for run in runs}))
    for path in qos_run_figures.figures(plan, runs, folder):
        output.console.print(f"written: {path}")
    return document


def _qos_processes(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_processes
    from tidegate_lab.experiments.qos_plan import PLANS

    with _played(PLANS["processes"].end_s) as told:
        runs = qos_processes.run_all("processes", options.out or Path("out/qos-processes"), told)
    document = qos_processes.to_json("processes", runs)
    output.console.print(_qos_table({run.name: document[run.name] for run in runs}))
    return document


def _qos_table(runs: dict[str, Any]) -> Table:
    table = output.table("run", "class", "p50", "p99", "mean", "violations", "share", "rows/s", title="in the burst")
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
    from tidegate_lab.experiments import multilevel

    with _counted("multilevel") as told:
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


def _fleet(options: Options) -> dict[str, Any]:
    from json import dumps

    from tidegate_lab.experiments.fleet_figures import draw_run
    from tidegate_lab.experiments.fleet_run import CENTRE_ONLY, OBJECTIVE_S, Course, play

    folder = options.out or Path("out/fleet-run")
    with output.console.status("starting the fleet") as status:
        found = play(folder, CENTRE_ONLY if options.quick else Course(), status.update)
    (folder / "fleet-run.json").write_text(dumps(found, indent=1))
    table = output.table(
        "application", "rows", "lost", "doubled", "violations", "p99", "hosts", title="every row checked"
    )
    for name, rows in found["applications"].items():
        late = found["late_rows"][name]
        hosts = " → ".join(run["host"] for run in found["runs"][name])
        counts = (str(rows[key]) for key in ("rows_in", "rows_lost", "rows_doubled"))
        table.add_row(name, *counts, f"{late['late_share']:.1%}", f"{late['p99_s']:.1f} s", hosts)
    output.console.print(table)
    output.console.print(f"written: {draw_run(found.pop('samples'), OBJECTIVE_S, folder / 'fleet-run.png')}")
    return found


def _batch_latency(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import batch_latency
    from tidegate_lab.experiments.batch_latency_plan import PLANS
    from tidegate_lab.experiments.batch_latency_report import tables

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


def _state_moves(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import state_moves

    moves, kills = (80, 1) if options.quick else (500, 2)
    plan = state_moves.Plan(moves, kills, seed=options.seed)
    with output.jvm_output_to((options.out or Path("out/state-moves")) / "spark.log"):
        spark = state_moves.start_cluster()
    try:
        with _counted("state moves") as told:
            document = state_moves.run(plan, told, spark)
    finally:
        spark.stop()
    table = output.table(
        "changelog", "compaction", "moves", "in two batches", "kills", "batches", "state rows", "digests"
    )
    for one in document["variants"]:
        table.add_row(
            "on" if one["changelog"] else "off",
            "on" if one["compaction"] else "off",
            str(one["moves"]),
            f"{one['in_place_soon'] / max(1, one['moves']):.1%}",
            str(one["kills"]),
            str(sum(one["batches"].values())),
            str(sum(one["state_rows"].values())),
            "equal" if all(one["equal"].values()) else "DIFFER",
        )
    output.console.print(table)
    return document


def _together(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import together

    scenario, names = together.scenario(), options.runs or together.RUNS
    if unknown := [name for name in names if name not in together.RUNS]:
        raise InvalidInput(f"together --only {unknown[0]}: use some of {', '.join(together.RUNS)}")
    world: together.World
    if options.world == "sim":
        from tidegate_lab.experiments.together_sim import SimWorld

        world = SimWorld(options.seed)
    else:
        from tidegate_lab.experiments.together_spark import SparkWorld

        world = SparkWorld(options.out or Path("out/together"))
    with _counted("together") as told:
        document = together.run(world, scenario, told, names)
    output.console.print(_together_table(document))
    return document


def _model_check(options: Options) -> dict[str, Any]:

    from tidegate_lab.experiments import model_check
    from tidegate_lab.experiments.model_check_worlds import SimModelWorld, spark_model_world

    simulated = options.world == "sim"
    where = nullcontext(SimModelWorld(options.seed)) if simulated else spark_model_world(_model_folder(options))
    with _counted("model check") as told, where as world:
        document = model_check.run(world, told, _chosen(options.runs, model_check.CONFIGURATIONS))
    table = output.table(
        "tasks", "interval", "rows/s", "busy", "predicted p99", "measured p99", "error", title="model check"
    )
    for one in document["configurations"]:
        table.add_row(
            str(one["tasks"]),
            f"{one['interval_s']:g} s",
            f"{one['rows_per_s']:.0f}",
            f"{one['utilisation']:.2f}",
            f"{one['predicted_p99_s']:.2f} s",
            f"{one['measured_p99_s']:.2f} s",
            f"{one['error']:.0%}",
        )
    output.console.print(table)
    output.console.print(f"median error: {document['median_error']:.1%}")
    return document


def _chosen(numbers: tuple[str, ...], configurations: tuple[Configuration, ...]) -> tuple[Configuration, ...]:
    """The configurations with these numbers, from 1; all if none is given."""
    if wrong := [one for one in numbers if not one.isdecimal() or not 1 <= int(one) <= len(configurations)]:
        raise InvalidInput(f"model-check --only {wrong[0]}: use numbers from 1 to {len(configurations)}")
    return tuple(configurations[int(one) - 1] for one in numbers) or configurations


def _model_folder(options: Options) -> Path:
    return options.out or Path("out/model-check")


TOGETHER = "together: p99, objective and pause in seconds, cost in executor-seconds"


def _together_table(document: dict[str, Any]) -> Table:
    classes = document["objectives"]
    table = output.table("run", "class", "late", "p99", "objective", "cost", "changes", "pause", title=TOGETHER)
    for name, run in document["runs"].items():
        for place, (group, objective_s) in enumerate(classes.items()):
            costs = (f"{run['executor_seconds']:.0f}", str(run["reconfigurations"]), f"{run['pause_s']:.1f}")
            table.add_row(
                "" if place else name,
                group,
                f"{run['violation_rate'][group]:.2%}",
                f"{run['p99_s'][group]:.1f}",
                f"{objective_s:g}",
                *(("", "", "") if place else costs),
            )
    return table


def _kafka(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import kafka_run

    folder, plan = options.out or Path("out/kafka"), kafka_run.PLANS["quick" if options.quick else "full"]
    output.console.print(f"starting a broker and Spark (log: {folder / 'spark.log'})")
    with output.jvm_output_to(folder / "spark.log"), _played(plan.end_s) as told:
        found = kafka_run.run_all(plan, folder, told)
    columns = ("run", "violations", "p99", "most rows", "longest", "rows", "lost", "doubled", "restarts")
    table = output.table(*columns, title=f"violations: rows over {plan.objective_s:g} s; batches by rows and time")
    for name, run in found.document["runs"].items():
        largest = (str(run["largest_batch_rows"]), f"{run['largest_batch_s']:.0f} s")
        counts = (str(run[key]) for key in ("rows_in", "rows_lost", "rows_doubled", "restarts"))
        table.add_row(name, str(run["late"]), f"{run['p99_s']:.0f} s", *largest, *counts)
    output.console.print(table)
    late = ", ".join(f"{late} at {limit} rows" for limit, late in found.late_by_limit.items())
    output.console.print(f"plain-limited: rows over the objective by maxOffsetsPerTrigger: {late}")
    return found.document


def _twin(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import twin_check

    where: AbstractContextManager[twin_check.World]
    if options.world == "sim":
        where = nullcontext(twin_check.SimTwinWorld(options.seed))
    else:
        from tidegate_lab.experiments.twin_spark import spark_twin_world

        where = spark_twin_world()
    with _timed() as told, where as world:
        document = twin_check.check(world, options.out or Path("out/twin"), told)
    table = output.table("", "over the objective", "executor-seconds", "p99", title="a run that the twin did not see")
    for name, found in document.items():
        table.add_row(name, f"{found['late']:.1%}", f"{found['executor_seconds']:,.0f}", f"{found['p99_s']:.1f} s")
    output.console.print(table)
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
    "together": _together,
    "model-check": _model_check,
    "twin": _twin,
    "fleet": _fleet,
    "state-moves": _state_moves,
    "kafka": _kafka,
}


@contextmanager
def _counted(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar for work of known size."""
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total, text: progress.update(bar, completed=done, total=total, description=text)


@contextmanager
def _timed() -> Iterator[Callable[[str, float], None]]:
    """A progress line for work in phases of known length."""
    with output.console.status("starting") as status:
        yield lambda phase, seconds: status.update(f"{phase} (up to {seconds:.0f} s)")


@contextmanager
def _played(end_s: float) -> Iterator[Callable[[str, float], None]]:
    """A progress bar for runs that play the same load one after the other."""
    with Progress(console=output.console, transient=True) as progress:
        bar = progress.add_task("warming up", total=end_s)
        yield lambda name, at_s: progress.update(bar, completed=max(0.0, at_s), description=name)
