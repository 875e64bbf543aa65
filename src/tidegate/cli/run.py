"""`tidegate run`: a streaming application of the user's, on a cluster of its own or any master, under control."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import output
from tidegate.control.policyfile import load_policy
from tidegate.domain import EnvironmentUnfit, InvalidInput, Mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.attach import Gate


def run(
    app: Annotated[Path, typer.Argument(help="A Python file with build(spark, settings) or main(spark, gate).")],
    policy: Annotated[Path | None, typer.Option(help="Policy file (YAML).")] = None,
    mode: Annotated[Mode | None, typer.Option(help="Overrides the policy's mode.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; without it, an embedded cluster.")] = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots of an executor of the embedded cluster.")] = 2,
    spark_conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value; may be repeated.")] = None,
    duration: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Run a streaming application under Tidegate.

    The file defines build(spark, settings), which returns a DataStreamWriter, or main(spark, gate), which starts
    queries itself. Stop it with Ctrl-C.

    Example: tidegate run examples/wordcount.py --policy examples/policy.yaml
    """
    chosen = load_policy(policy)
    if mode is not None:
        chosen = chosen.model_copy(update={"mode": mode})
    folder = out or Path("out") / app.stem
    if chosen.store is None:
        chosen = chosen.model_copy(update={"store": str(folder / "tidegate.db")})
    module = load_app(app)
    settings = output.spark_settings(spark_conf)

    from tidegate.spark.attach import attach

    log = folder / "spark.log"
    output.console.print(f"starting Spark (its log: {log})")
    with output.jvm_output_to(log):
        spark = _session(app.stem, master, slots, chosen.executors.min, chosen.executors.max, settings)
    try:
        with attach(spark, chosen) as gate:
            output.console.print(f"attached in mode {chosen.mode}; journal: {gate.journal.path}")
            _start(module, spark, gate, app, folder)
            _follow(spark, gate, duration)
            summary = {"application": app.stem, "journal": str(gate.journal.path), "steps": gate.runner.steps}
            failed = gate.failure
    finally:
        spark.stop()
    if json:
        output.print_json({**summary, "control_failure": None if failed is None else str(failed)})


def load_app(path: Path) -> ModuleType:
    """Import the application's file; whatever is wrong with it is said in a line."""
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    # The workers import what the application imports.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path.parent.resolve()), os.environ.get("PYTHONPATH")]))
    sys.modules[spec.name] = module  # dataclasses and pickling look it up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInput(f"{path}: does not import: {type(error).__name__}: {error}") from None
    if not (callable(getattr(module, "build", None)) or callable(getattr(module, "main", None))):
        raise InvalidInput(f"{path}: define build(spark, settings) or main(spark, gate)")
    return module


def _session(
    name: str, master: str | None, slots: int, least: int, most: int, settings: dict[str, str]
) -> SparkSession:
    from pyspark.sql import SparkSession

    from tidegate.spark.embedded import embedded_session, start_session
    from tidegate.spark.java import require_java

    if master is None:
        return embedded_session(name, least, most, slots, settings=settings)
    require_java()
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return start_session(builder)


def _start(module: ModuleType, spark: SparkSession, gate: Gate, app: Path, folder: Path) -> None:
    try:
        if hasattr(module, "main"):
            module.main(spark, gate)
        else:
            gate.start(app.stem, module.build, checkpoint=folder / "checkpoint")
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"{app}: did not start: {type(error).__name__}: {str(error).splitlines()[0]}") from error


def _follow(spark: SparkSession, gate: Gate, duration: float | None) -> None:
    """Until all queries have ended, one has failed, the time is up, or the user stops it."""
    end_s = None if duration is None else time.monotonic() + duration
    told = -1
    started: dict[str, Any] = {}
    while end_s is None or time.monotonic() < end_s:
        started |= {query.runId: query for query in spark.streams.active}
        if not gate.rebalancing:  # a run that failed in a rebalance is followed by another
            own = {query.name: query.query for query in gate.queries()}
            others = [query for query in started.values() if query.name not in own]
            for query in (*own.values(), *others):
                if query.exception() is not None:
                    raise EnvironmentUnfit(f"query {query.name} failed: {str(query.exception()).splitlines()[0]}")
            if not any(query.isActive for query in (*own.values(), *others)):
                return
        last = gate.runner.last
        if last is not None and last.decision is not None and last.decision.actions and gate.runner.steps != told:
            told = gate.runner.steps
            done = ", ".join(str(action) for action in last.decision.actions)
            output.console.print(f"{done} — because {last.decision.reasons[0]}")
        time.sleep(0.2)
