"""Experiments that run on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli import output
from tidegate.domain import InvalidInput
from tidegate_lab.commands.reproduce.bars import counted, played, timed
from tidegate_lab.commands.reproduce.options import Options, Source

if TYPE_CHECKING:
    from rich.table import Table


def run_mestream(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import mestream, mestream_figures

    with timed() as told:
        plan = mestream.Plan() if options.rate is None else mestream.Plan(rate=options.rate)
        done = mestream.run(plan, options.out or Path("out/mestream"), told)
    document = mestream.to_json(done)
    output.console.print(mestream_figures.table(document))
    if options.out is not None:
        for path in mestream_figures.draw(done, options.out):
            output.console.print(f"written: {path}")
    return document


def run_qos_classes(options: Options) -> dict[str, Any]:
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
        with played(plan.end_s) as told:
            runs = qos_classes.run_all(spark, plan, folder, told, topics)
    document = qos_classes.to_json(plan, runs)
    output.console.print(_qos_table({run.name: document[run.name] for run in runs}))
    for path in qos_run_figures.figures(plan, runs, folder):
        output.console.print(f"written: {path}")
    return document


def run_qos_processes(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import qos_processes
    from tidegate_lab.experiments.qos_plan import PLANS

    with played(PLANS["processes"].end_s) as told:
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


def run_batch_latency(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import batch_latency
    from tidegate_lab.experiments.batch_latency_plan import PLANS
    from tidegate_lab.experiments.batch_latency_report import tables

    if options.quick and options.full:
        raise InvalidInput("batch-latency: use --quick or --full, not both")
    plan = PLANS["quick" if options.quick else "full" if options.full else "default"]
    folder = options.out or Path("out/batch-latency")
    with output.jvm_output_to(folder / "spark.log"):
        spark = batch_latency.start_cluster(plan)
    with counted("batch latency") as told:
        document = batch_latency.run(plan, folder, told, spark)
    for table in tables(document):
        output.console.print(table)
    for name in document["files"]:
        output.console.print(f"written: {folder / name}")
    return document


def run_fleet(options: Options) -> dict[str, Any]:
    from json import dumps

    from tidegate_lab.experiments.fleet_figures import draw_run
    from tidegate_lab.experiments.fleet_four_way import four_way
    from tidegate_lab.experiments.fleet_run import CENTRE_ONLY, OBJECTIVE_S, Course, play

    folder = options.out or Path("out/fleet-run")
    with output.console.status("starting the fleet") as status:
        found = play(folder, CENTRE_ONLY if options.quick else Course(), status.update)
    checked = found["applications"].values()
    found |= {key: sum(rows[key] for rows in checked) for key in ("rows_lost", "rows_doubled")}
    (folder / "fleet-run.json").write_text(dumps(found, indent=1))  # what follows takes half an hour and may fail
    if not options.quick:
        with output.console.status("the same load four times") as status:
            compared = four_way(folder / "four-way", status.update)
        found["four_way"] = compared["four_way"]
        found |= {key: found[key] + compared[key] for key in ("rows_lost", "rows_doubled")}
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
    columns = ("", "utilisation", "mean", "p99", "violations", "host-h", "restarts")
    ways = output.table(*columns, title="the same load four times")
    for name, row in found.get("four_way", {}).items():
        late = f"{row['violation_rate']:.1%}"
        times = (f"{row['mean_s']:.1f} s", f"{row['p99_s']:.1f} s")
        ways.add_row(
            name, f"{row['utilisation']:.3f}", *times, late, f"{row['host_hours']:.2f}", str(row["reconfigurations"])
        )
    if "four_way" in found:
        output.console.print(ways)
    output.console.print(f"written: {draw_run(found.pop('samples'), OBJECTIVE_S, folder / 'fleet-run.png')}")
    return found


def run_state_moves(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import state_moves

    moves, kills = (80, 1) if options.quick else (500, 2)
    plan = state_moves.Plan(moves, kills, seed=options.seed)
    with output.jvm_output_to((options.out or Path("out/state-moves")) / "spark.log"):
        spark = state_moves.start_cluster()
    try:
        with counted("state moves") as told:
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


def run_kafka(options: Options) -> dict[str, Any]:
    from tidegate_lab.experiments import kafka_run

    folder, plan = options.out or Path("out/kafka"), kafka_run.PLANS["quick" if options.quick else "full"]
    output.console.print(f"starting a broker and Spark (log: {folder / 'spark.log'})")
    with output.jvm_output_to(folder / "spark.log"), played(plan.end_s) as told:
        found = kafka_run.run_all(plan, folder, told)
    columns = ("run", "violations", "p99", "largest", "longest", "lost", "doubled", "restarts")
    rows = found.document["runs"]["plain"]["rows_in"]
    title = f"violations: of {rows} rows, those over {plan.objective_s:g} s; largest and longest batch"
    table = output.table(*columns, title=title)
    table.columns[0].no_wrap = True
    for name, run in found.document["runs"].items():
        largest = (str(run["largest_batch_rows"]), f"{run['largest_batch_s']:.0f} s")
        counts = (str(run[key]) for key in ("rows_lost", "rows_doubled", "restarts"))
        table.add_row(name, str(run["late"]), f"{run['p99_s']:.0f} s", *largest, *counts)
    output.console.print(table)
    output.console.print(f"plain-limited: maxOffsetsPerTrigger {found.limit}")
    for name, played_runs in (("burst only", found.rehearsed), ("burst and outage", found.whole)):
        by_limit = (f"{limit} rows: {run.late}, {run.p99_s:.1f} s" for limit, run in played_runs.items())
        output.console.print(f"{name}, violations and p99 by limit: {'; '.join(by_limit) or 'not rehearsed'}")
    return found.document
