"""`tidegate run`: runs a user's streaming job, unchanged or built by Tidegate, under control."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import extensions
from tidegate.cli import output
from tidegate.control.journal import read_entries
from tidegate.control.policyfile import PolicyFile
from tidegate.domain import EnvironmentUnfit, InvalidInput, Mode
from tidegate.domain.policy import Policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.adapters.spark.attach import Gate
    from tidegate.adapters.spark.ending import Ending

_STOP_WAIT_S = 60.0


def run(
    app: Annotated[Path, typer.Argument(help="A PySpark script, or a file that defines build or main; see above.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments for the script, after --.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy file (YAML).")] = None,
    mode: Annotated[Mode | None, typer.Option(help="Overrides the policy's mode.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master. Default: an embedded cluster.")] = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots per executor of the embedded cluster.")] = 2,
    spark_conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value or @FILE; repeatable.")] = None,
    checkpoints: Annotated[Path | None, typer.Option(help="Folder for checkpoints.", file_okay=False)] = None,
    duration: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")] = None,
    controller: Annotated[str | None, typer.Option(help="Use this installed controller, not the default.")] = None,
    out: output.Out = None,
    json: output.Json = False,
) -> None:
    """Run a streaming job under Tidegate.

    A PySpark script runs unchanged: Tidegate attaches to the session that it creates. A file that defines
    build(spark, settings), which returns a DataStreamWriter, or main(spark, gate) gets a session from Tidegate. Its
    queries can be restarted with other settings.

    Queries without a checkpoint location get one in the folder NAME.checkpoints beside the file, and resume from there
    the next time. Ctrl-C stops reading, lets the running batch finish, and exits.

    Example: tidegate run --policy policy.yaml -- job.py --date 2024-07-01
    """
    folder = out or Path("out") / app.stem

    def adjusted(stated: Policy) -> Policy:
        journal = stated.journal.model_copy(update={"path": stated.journal.path or str(folder / "tidegate.db")})
        return stated.model_copy(update={"journal": journal, "mode": mode or stated.mode})

    chosen = adjusted(Policy()) if policy is None else PolicyFile(policy, adjusted=adjusted)
    is_script = takes_no_session(app)
    module = None if is_script else load_app(app)
    if module is not None and arguments:
        raise InvalidInput(f"{app}: takes no arguments, because it defines {_entry(module)}; run it without arguments")
    if controller is not None:
        extensions.part("controllers", controller)  # report its problems before Spark starts
    settings = output.spark_settings(spark_conf)

    from tidegate.adapters.spark.ending import Ending

    kept = checkpoints or app.parent / f"{app.stem}.checkpoints"
    run = _Run(app, chosen, folder, kept, controller, duration, Ending(output.console.print))
    with run.to_its_end(), contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext():
        if module is None:
            run.script(arguments or [], master, slots, settings)
        else:
            run.application(module, master, slots, settings)
    run.report(json)


@dataclass(slots=True)
class _Run:
    """One run of a job, from the start of Spark to the report."""

    app: Path
    rules: Policy | PolicyFile
    folder: Path
    checkpoints: Path
    controller: str | None
    duration: float | None
    ending: Ending
    gates: list[Gate] = field(default_factory=list)

    @property
    def policy(self) -> Policy:
        return self.rules if isinstance(self.rules, Policy) else self.rules.policy

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def script(self, arguments: list[str], master: str | None, slots: int, settings: dict[str, str]) -> None:
        """Run the file unchanged."""
        from tidegate.adapters.spark.embedded import embedded_settings
        from tidegate.adapters.spark.java import require_java
        from tidegate.adapters.spark.unchanged import Sessions, run_script

        require_java()
        cluster = {"spark.master": master} if master else embedded_settings(self.policy.executors.max, slots)
        # We choose where it runs. What it computes (time zone, state store) stays the script's choice.
        own = {key: value for key, value in cluster.items() if not key.startswith("spark.sql.")}
        sessions = Sessions(self.attach, {**own, **settings}, self.checkpoints, self.starting)
        try:
            run_script(self.app, arguments, sessions)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise EnvironmentUnfit(f"{self.app} ended with exit code {end.code}; Spark's log: {self.log}") from None
        except Exception as error:
            self.failed(error)
        if not self.gates and not self.ending.reason:
            raise InvalidInput(
                f"{self.app}: ended without a Spark session, and defines neither build(spark, settings) nor "
                "main(spark, gate); create a session or define one of them"
            )

    def application(self, module: ModuleType, master: str | None, slots: int, settings: dict[str, str]) -> None:
        """Give the file's `build` or `main` a session, and wait for its queries."""
        from tidegate.adapters.spark.unchanged import keep_checkpoints

        with self.starting():
            limits = self.policy.executors
            spark = _session(self.app.stem, master, slots, limits.min, limits.max, settings)
        gate = self.attach(spark)
        try:
            if hasattr(module, "main"):
                keep_checkpoints(spark, self.checkpoints)
                module.main(spark, gate)
            else:
                gate.start(self.app.stem, module.build)
        except InvalidInput:
            raise
        except Exception as error:
            self.failed(error)
        self.follow(spark, gate)

    def attach(self, spark: SparkSession) -> Gate:
        from tidegate.adapters.spark.attach import attach
        from tidegate.adapters.spark.executors import request_executors
        from tidegate.adapters.spark.sparkfeatures import has_driver

        # A local cluster starts all its executors.
        if has_driver(spark) and (spark.sparkContext.master or "").startswith("local-cluster"):
            request_executors(spark.sparkContext, self.policy.executors.min)
        gate = attach(spark, self.rules, controller=self.controller, checkpoints=self.checkpoints)
        self.gates.append(gate)
        self.ending.spark, self.ending.gate = spark, gate
        self.ending.listen()
        if self.duration is not None:
            self.ending.after(self.duration)
        output.console.print(f"attached in mode {gate.policy.mode}; journal: {gate.journal.path}")
        return gate

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        output.console.print(f"starting Spark (its log: {self.log})")
        with output.jvm_output_to(self.log):
            yield

    @contextlib.contextmanager
    def to_its_end(self) -> Iterator[None]:
        """However the job ends, stop its queries, its control and Spark, in this order."""
        self.ending.listen()
        try:
            yield
        except KeyboardInterrupt:
            if not self.ending.reason:
                raise
        finally:
            self.ending.left()
            _elsewhere(self._stop)

    def _stop(self) -> None:
        from tidegate.adapters.spark.sparkfeatures import has_driver

        for gate in self.gates:
            gate.settle(5.0)
            gate.stop()
        spark = self.ending.spark
        if spark is not None and not (has_driver(spark) and spark.sparkContext._jsc is None):
            spark.stop()

    def failed(self, error: Exception) -> None:
        """Report what went wrong in one line. An error in the file itself comes with its traceback."""
        from tidegate.adapters.spark.failures import cause_of

        for gate in self.gates:
            for name, failure in gate.failures().items():
                raise EnvironmentUnfit(f"query {name} failed: {cause_of(str(failure))}; Spark's log: {self.log}")
        name = type(error).__name__
        if name in ("StreamingQueryException", "QueryFailed"):
            query = self._failed_query()
            raise EnvironmentUnfit(f"query {query}failed: {cause_of(_whole(error))}; Spark's log: {self.log}") from None
        if self.ending.reason:
            return  # its call failed because the job was stopped
        print("".join(traceback.format_exception(error)), file=sys.stderr)
        raise EnvironmentUnfit(f"{self.app} failed: {name}: {cause_of(str(error))}; Spark's log: {self.log}") from None

    def _failed_query(self) -> str:
        """Its name, as the controller observed it, because the error contains only ids."""
        if not self.gates:
            return ""
        self.gates[-1].settle(15.0)
        seen = (entry.observation for entry in read_entries(self.gates[-1].journal.path) if entry.observation)
        failed = [sample.name for one in seen for sample in one.applications if sample.error]
        return f"{failed[-1]} " if failed else ""

    def follow(self, spark: SparkSession, gate: Gate) -> None:
        """Wait until all queries have ended or one has failed."""
        from tidegate.adapters.spark.failures import cause_of

        told = -1
        started: dict[str, Any] = {}
        while True:
            started |= {query.runId: query for query in spark.streams.active}
            if not gate.rebalancing:  # after a failed run, a rebalance starts another one
                own = {query.name: query.query for query in gate.queries()}
                others = [query for query in started.values() if query.name not in own]
                for query in (*own.values(), *others):
                    failure = query.exception()
                    if failure is not None and not self.ending.reason:
                        cause = cause_of(_whole(failure))
                        raise EnvironmentUnfit(f"query {query.name} failed: {cause}; Spark's log: {self.log}")
                if not any(query.isActive for query in (*own.values(), *others)):
                    return
            last = gate.runner.last
            if last is not None and last.decision is not None and last.decision.actions and gate.runner.steps != told:
                told = gate.runner.steps
                done = ", ".join(str(action) for action in last.decision.actions)
                output.console.print(f"{done} — because {last.decision.reasons[0]}")
            time.sleep(0.2)

    def report(self, json: bool) -> None:
        from tidegate.view.report import write_report

        summary: dict[str, Any] = {"application": self.app.stem, "ended": self.ending.reason or "by itself"}
        if self.gates:
            gate = self.gates[-1]
            summary |= {"journal": str(gate.journal.path), "steps": gate.runner.steps}
            if gate.runner.steps:
                summary["report"] = str(write_report([gate.journal.path], self.folder))
                output.console.print(f"report: {summary['report']}")
            summary["control_failure"] = None if gate.failure is None else str(gate.failure)
        if json:
            output.print_json(summary)
        if self.ending.reason == "interrupted":
            raise KeyboardInterrupt


def takes_no_session(path: Path) -> bool:
    """Is the file a plain script, without build(spark, settings) and main(spark, gate)?"""
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(f"{path}: not a Python file: {error}") from None
    wanted = {("build", "settings"), ("main", "gate")}
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    found = {(each.name, each.args.args[1].arg) for each in functions if len(each.args.args) == 2}
    return not (found & wanted)


def load_app(path: Path) -> ModuleType:
    """Import the application's file. Problems raise a one-line error."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    # The Python workers import what the application imports.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path.parent.resolve()), os.environ.get("PYTHONPATH")]))
    sys.modules[spec.name] = module  # dataclasses and pickling look it up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInput(f"{path}: cannot be imported: {type(error).__name__}: {error}") from None
    return module


def _entry(module: ModuleType) -> str:
    return "main(spark, gate)" if hasattr(module, "main") else "build(spark, settings)"


def _session(
    name: str, master: str | None, slots: int, least: int, most: int, settings: dict[str, str]
) -> SparkSession:
    from pyspark.sql import SparkSession

    from tidegate.adapters.spark.embedded import embedded_session, start_session
    from tidegate.adapters.spark.java import require_java

    if master is None:
        return embedded_session(name, least, most, slots, settings=settings)
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return start_session(builder)


def _whole(failure: Any) -> str:
    """The whole error of a failed query, including its Java stack trace."""
    trace = getattr(failure, "_stackTrace", None) or ""
    return f"{failure}\n{trace}"


def _elsewhere(act: Callable[[], None]) -> None:
    """Call from another thread: this thread's last call to the JVM may have been interrupted before its answer."""
    thread = threading.Thread(target=act, name="tidegate-stop", daemon=True)
    thread.start()
    thread.join(_STOP_WAIT_S)
