"""`tidegate.attach(spark, policy)` puts a running Spark job under control.

The controller runs in a thread of the driver. If it fails, the error is reported, control ends, and the job goes on.
"""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidegate import extensions
from tidegate.adapters.spark.cluster import SparkCluster
from tidegate.adapters.spark.sparkfeatures import has_driver, has_gated_source
from tidegate.control.clock import WallClock
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.control.knowledge import Knowledge
from tidegate.control.recording import RecordingJournal
from tidegate.control.runner import KNOWLEDGE, Runner
from tidegate.domain import InvalidInput, Mode, TidegateError
from tidegate.domain.capability import Capability
from tidegate.domain.policy import Policy
from tidegate.domain.rules import ConsoleRule
from tidegate.plan.arbiter import proposers_named

if TYPE_CHECKING:
    from tidegate.adapters.spark.restartablequery import Build, RestartableQuery
    from tidegate.control.policyfile import PolicyFile
    from tidegate.view.server import Console

logger = logging.getLogger("tidegate")

_attached: dict[str, Gate] = {}
_END_WAIT_S = 10.0


def attach(
    spark: SparkSession,
    policy: Policy | PolicyFile | Mapping[str, Any] | str | Path | None = None,
    *,
    mode: Mode | str | None = None,
    controller: str | None = None,
    proposers: Collection[str] | None = None,
    checkpoints: str | Path | None = None,
) -> Gate:
    """Put every streaming query of this Spark context under control, and return the gate.

    `policy` is a policy, a mapping, or the path of a YAML file, which is read again whenever it changes. `mode`
    overrides the policy's mode. `controller` names a plugged-in controller to use instead of Tidegate's. `proposers`
    selects proposers of Tidegate's controller, for example `["pool"]`; the default is all of them. `checkpoints` is the
    folder for checkpoints of queries started through `gate.start` without one.

    In a Spark Connect session Tidegate observes the client's queries and recommends; it cannot act.
    """
    chosen, file = _policy(policy)
    if mode is not None:
        chosen = chosen.model_copy(update={"mode": _mode(mode)})
    if not has_driver(spark):
        from tidegate.adapters.spark.connectgate import attach_to_client

        return attach_to_client(spark, chosen, controller, lambda: _changed(file, mode), proposers)
    application_id = spark.sparkContext.applicationId
    if application_id in _attached and _attached[application_id].running:
        raise InvalidInput("Tidegate is already attached to this Spark context; stop that gate first: gate.stop()")
    gate = Gate(spark, chosen, controller, lambda: _changed(file, mode), proposers, checkpoints)
    _attached[application_id] = gate
    return gate


class Gate:
    """A Spark context under control: starts queries, reports what is possible, and ends control."""

    def __init__(
        self,
        spark: SparkSession,
        policy: Policy,
        controller: str | None = None,
        reload: Callable[[], Policy | None] = lambda: None,
        proposers: Collection[str] | None = None,
        checkpoints: str | Path | None = None,
    ) -> None:
        self._spark = spark
        self._shares_slots = (
            policy.mode is Mode.APPLY and policy.knobs.shares and (proposers is None or "classes" in proposers)
        )
        """Do queries run in the scheduler pools of their classes?"""
        self._checkpoints = Path(checkpoints) if checkpoints is not None else None
        self.policy = policy
        self.failure: BaseException | None = None
        """The error that ended control, if any."""
        # The cluster comes first: it limits the first batch of a query that was started a moment ago.
        self.cluster = self._connect(policy, own_controller=controller is None)
        self._clock = WallClock()
        try:
            self._prepare(reload, controller, proposers)
        except BaseException:
            self.cluster.release()
            self.cluster.close()
            raise
        self._thread = threading.Thread(target=self._run, name="tidegate-control", daemon=True)
        self.journal.note(time.time(), "control-started", f"mode {policy.mode}, every {policy.interval_s:g} s")
        self._thread.start()
        atexit.register(self.stop)
        self._console: Console | None = None
        if policy.console is not None:
            try:
                self.console()
            except (TidegateError, OSError) as error:  # a missing console must not end the job
                logger.warning("the console did not start: %s", error)
                self.journal.note(time.time(), "console-failed", str(error))

    def _connect(self, policy: Policy, own_controller: bool) -> SparkCluster:
        """What is observed and controlled."""
        return SparkCluster(
            self._spark,
            policy,
            note=lambda event, text: self.journal.note(time.time(), event, text),
            bound_first_batches=own_controller,
        )

    @property
    def _application(self) -> str:
        """The name of the Spark application."""
        return self._spark.sparkContext.appName or ""

    def _register_source(self) -> None:
        """Register `format("tidegate")` if this Spark supports it. Jobs that do not use it do not need it."""
        if not has_gated_source():
            return
        from tidegate.adapters.spark.source import TidegateSource

        try:
            self._spark.dataSource.register(TidegateSource)
        except AnalysisException as error:  # already registered in another session
            logger.info('format("tidegate") is not available in this session: %s', str(error).splitlines()[0])

    def _prepare(
        self, reload: Callable[[], Policy | None], controller: str | None, proposers: Collection[str] | None
    ) -> None:
        """Open the journal and restore what was learned before."""
        policy, rule = self.policy, self.policy.journal
        path = rule.path or f"tidegate-{_file_name(self._application or 'job')}.db"
        self.journal = SqliteJournal(path, rule.keep_days, rule.max_megabytes)
        # Tied to the process, not to this object, because queries may outlive their control.
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._register_source()
        saved = self.journal.load_blob(KNOWLEDGE)
        self.controller = Controller(
            policy,
            Knowledge.from_bytes(saved) if saved is not None else None,
            extensions.make("controllers", controller) if controller is not None else None,
            proposers_named(proposers) if proposers is not None else None,
        )
        self.controller.forget_targets()  # Spark is new, so earlier targets do not apply
        self._recording: RecordingJournal | None = None
        if rule.history:
            from tidegate.history.parquetwriter import HistoryWriter

            self._recording = RecordingJournal(self.journal, HistoryWriter(Path(rule.history)))
        journal = self._recording or self.journal
        self.runner = Runner(self.cluster, self.controller, self._clock, journal, self.journal, reload)

    def console(self, **settings: Any) -> Console:
        """Serve the page, the API and metrics. `settings` are those of `console` in the policy, such as `port`.

        A second call returns the same server. It ends with the gate.
        """
        if self._console is None:
            from tidegate.control.yamlmodel import from_mapping
            from tidegate.view.api import Steer
            from tidegate.view.server import Console

            rule = self.policy.console or ConsoleRule()
            rule = from_mapping({**rule.model_dump(), **settings}, ConsoleRule, "console")
            steer = Steer(self.runner.steering, lambda: self.controller.policy, lambda: self.running)
            self._console = Console([self.journal.path], rule, steer)
            self.journal.note(time.time(), "console-started", self._console.url)
        return self._console

    @property
    def running(self) -> bool:
        """Is control running?"""
        return self._thread.is_alive()

    @property
    def rebalancing(self) -> bool:
        """Is a query between two runs?"""
        return self.cluster.rebalancing

    def start(self, name: str, build: Build, checkpoint: str | Path | None = None) -> RestartableQuery:
        """Start a query that Tidegate may restart with other settings.

        `build(spark, settings)` returns a `DataStreamWriter` that is not started. Without a `checkpoint` here, a
        checkpoint location in the build, or a folder given to `attach`, the checkpoint is temporary and is lost with
        the process.
        """
        # Restarts bring checkpoints and transactions with them. A job that starts its queries itself needs neither.
        from tidegate.adapters.spark.restartablequery import RestartableQuery
        from tidegate.adapters.spark.settings import Settings

        if name in self.cluster.restartable and self.cluster.restartable[name].query.isActive:
            raise InvalidInput(f"a query named {name!r} already runs; stop it first, or choose another name")
        unique = f"{_file_name(name)}-{crc32(name.encode()):08x}"  # names may differ only in dropped characters
        folder = self._folder / unique
        kept = self._checkpoints / (name if _file_name(name) == name else unique) if self._checkpoints else None
        settings = Settings(
            name,
            gate=str(folder / "gate.json"),
            checkpoint=str(checkpoint or kept or folder / "checkpoint"),
            pool=(self.policy.class_name(name) or "") if self._shares_slots else "",
        )
        query = RestartableQuery(self._spark, build, settings, self.cluster.limits)
        self.cluster.restartable[name] = query
        return query

    def forget(self, name: str) -> None:
        """Forget a query that has ended."""
        self.cluster.restartable.pop(name, None)

    def queries(self) -> list[RestartableQuery]:
        """The queries that were started through this gate."""
        return list(self.cluster.restartable.values())

    def failures(self) -> dict[str, Exception]:
        """Errors of queries of this gate that do not run, by name: they failed, or could not be restarted."""
        found = {query.name: query.failure for query in self.queries() if not query.query.isActive}
        return {name: failure for name, failure in found.items() if failure is not None}

    def capabilities(self) -> tuple[Capability, ...]:
        """What Tidegate can do in this context, given its version, its cluster, and every running query."""
        return self.cluster.capabilities()

    def settle(self, limit_s: float = 10.0) -> None:
        """Wait for another observation, so that everything that has happened so far is in the journal."""
        seen, deadline_s = self.runner.steps, time.monotonic() + limit_s
        while self.running and self.runner.steps < seen + 2 and time.monotonic() < deadline_s:
            time.sleep(0.02)

    def stop(self) -> None:
        """End control. Queries and executors stay as they are, and every other change is undone.

        This covers admission, scheduler pools, and dynamic allocation if it was taken over.
        """
        self._clock.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_END_WAIT_S)
        if self._console is not None:
            console, self._console = self._console, None
            console.close()
        atexit.unregister(self.stop)

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        """The body of the thread. No error leaves it."""
        try:
            self.runner.run()
            self.journal.note(time.time(), "control-ended", "stopped")
        except BaseException as error:
            if self._context_stopped():
                self.journal.note(time.time(), "control-ended", "the Spark context was stopped")
                return
            self.failure = error
            text = f"{type(error).__name__}: {str(error).strip() or 'no message'}".splitlines()[0]
            logger.error("Tidegate's control has ended (%s); the job continues without it", text)
            self.journal.note(time.time(), "control-failed", text)
        finally:
            self._close()

    def _context_stopped(self) -> bool:
        context = self._spark.sparkContext._jsc
        return context is None or bool(context.sc().isStopped())

    def _close(self) -> None:
        try:
            if not self._context_stopped():
                self.cluster.release()
                self.cluster.close()
            if self._recording is not None:
                self._recording.close(time.time())
        except Exception as error:
            logger.warning("control did not end cleanly: %s", str(error).splitlines()[0])
        self.journal.close()  # leaves one complete file; a later note reopens it


def _policy(given: Policy | PolicyFile | Mapping[str, Any] | str | Path | None) -> tuple[Policy, PolicyFile | None]:
    """The policy, and the file that it was read from. YAML is loaded only where there is something to read."""
    if given is None or isinstance(given, Policy):
        return given or Policy(), None
    from tidegate.control.policyfile import PolicyFile, policy_from

    if isinstance(given, str | Path):
        given = PolicyFile(given)
    if isinstance(given, PolicyFile):
        return given.policy, given
    return policy_from(given), None


def _changed(file: PolicyFile | None, mode: Mode | str | None) -> Policy | None:
    """The policy of the file if it has changed, in the requested mode."""
    policy = file.poll() if file is not None else None
    return policy if policy is None or mode is None else policy.model_copy(update={"mode": _mode(mode)})


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        raise InvalidInput(f"mode {str(mode)!r}: use off, recommend or apply") from None


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "job"
