"""`tidegate doctor`: shows what works on this machine and with this Spark, and how to fix the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import tidegate
from tidegate.adapters.host.cgroups import CgroupFiles, CgroupTree
from tidegate.adapters.host.cgroups import capability as of_controller
from tidegate.cli import output
from tidegate.domain import EnvironmentUnfit
from tidegate.domain.capability import Capability
from tidegate.extras import extras, how_to_get
from tidegate.laboratory import laboratory


def doctor(
    master: Annotated[str, typer.Option(help="Spark master to check.")] = "local[1]",
    spark_conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value or @FILE; repeatable.")] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Show what Tidegate can do here, and how to fix what it cannot.

    Starts a Spark session on the master, checks it, and stops it. The exit code is 2 if Tidegate cannot attach.

    Example: tidegate doctor --master yarn
    """
    settings = output.spark_settings(spark_conf)
    versions: dict[str, str] = {"tidegate": tidegate.__version__, "python": sys.version.split()[0], "master": master}
    problem = ""
    try:
        with output.console.status("starting Spark"):
            found, seen = _spark(master, settings, (out or Path("out") / "doctor") / "spark.log")
        versions |= seen
    except (EnvironmentUnfit, ModuleNotFoundError) as error:
        problem = str(error) if isinstance(error, EnvironmentUnfit) else how_to_get(error.name) or str(error)
        found = [Capability("attach", False, problem)]
    found += [*_machine(), *extras(), laboratory()]
    if json:
        output.print_json({**versions, "ready": not problem, "capabilities": [asdict(one) for one in found]})
    else:
        typer.echo(", ".join(f"{name} {text}" for name, text in versions.items()))
        table = output.table("what", "works")
        table.columns[0].no_wrap = True
        table.add_column("how, or what to do", overflow="fold")
        for one in found:
            table.add_row(escape(one.actuator), "yes" if one.able else "no", escape(one.reason))
        output.print_table(table)
    if problem:
        raise EnvironmentUnfit(problem)


def _spark(master: str, settings: dict[str, str], log: Path) -> tuple[list[Capability], dict[str, str]]:
    """Start a session as a job would, and check it."""
    from pyspark.sql import SparkSession

    from tidegate.adapters.spark.embedded import start_session
    from tidegate.adapters.spark.java import require_java
    from tidegate.adapters.spark.sparkfeatures import probe

    java = require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tidegate-doctor").master(master)
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **settings}
    for key, value in quiet.items():
        builder = builder.config(key, value)
    with output.jvm_output_to(log):
        spark = start_session(builder)
    try:
        context = spark.sparkContext
        scala = str(context._jvm.scala.util.Properties.versionNumberString())  # type: ignore[union-attr]
        found = [Capability("attach", True, "tidegate.attach(spark, policy), tidegate run -- SCRIPT")]
        found += [*probe(spark).capabilities(), *_context(context)]
        return found, {"spark": spark.version, "scala": scala, "java": str(java)}
    finally:
        spark.stop()


def _context(context: Any) -> Iterator[Capability]:
    """Capabilities that depend on how the job is started, not on the version."""
    from tidegate.adapters.host.hostwatch import HostWatch
    from tidegate.adapters.spark.executors import dynamic_allocation, works_on_this_machine
    from tidegate.adapters.spark.schedulerpools import SchedulerPools

    if context._jsc.sc().isLocal():
        why = "a local master has only one executor, in the driver; try --master 'local-cluster[2,1,1024]'"
        yield Capability("executors", False, why)
    elif dynamic_allocation(context):
        why = "Spark's dynamic allocation sets them; disable it, or set dynamic_allocation: take-over in the policy"
        yield Capability("executors", False, why)
    else:
        yield Capability("executors", True, f"requested from {context.master}, retired between batches")
    yield SchedulerPools(context, {}).capability()
    yield HostWatch(works_on_this_machine(context)).capability()


def _machine() -> Iterator[Capability]:
    """Control groups, for classes of applications that run as separate processes."""
    try:
        tree, files = CgroupTree.find(), CgroupFiles()
    except OSError:
        yield Capability("cgroups", False, "this machine has no /proc")
        return
    cpu = of_controller("cpu", tree, files)
    yield Capability("cgroups", cpu.able, cpu.reason)
