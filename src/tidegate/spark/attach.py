"""`tidegate.attach(spark, policy)`: two lines that put a running Spark job under control.

The controller lives in a thread of the driver. An error in it ends the control and is reported; the job goes on.
"""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidegate.control.clock import WallClock
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.control.policyfile import load_policy, policy_from
from tidegate.control.recording import RecordingJournal
from tidegate.control.runner import Runner
from tidegate.domain import InvalidInput, Mode, NotSupported
from tidegate.domain.policy import Policy
from tidegate.history import HistoryWriter
from tidegate.spark.capability import Capability
from tidegate.spark.cluster import SparkCluster
from tidegate.spark.queries import Build, RestartableQuery
from tidegate.spark.settings import Settings
from tidegate.spark.source import TidegateSource

logger = logging.getLogger("tidegate")

_attached: dict[str, Gate] = {}
_END_WAIT_S = 10.0


def attach(
    spark: SparkSession,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    *,
    mode: Mode | str | None = None,
) -> Gate:
    """Put every streaming query of this Spark context under control, and return the gate to it.

    `policy` is a policy, a mapping, or the path of a YAML file; `mode` overrides the policy's.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise NotSupported(
            "tidegate.attach needs a classic SparkSession; a Spark Connect session has no driver to attach to: "
            "call it in the driver itself"
        )
    chosen = load_policy(policy) if isinstance(policy, str | Path | None) else policy_from(policy)
    if mode is not None:
        chosen = chosen.model_copy(update={"mode": _mode(mode)})
    application_id = spark.sparkContext.applicationId
    if application_id in _attached and _attached[application_id].running:
        raise InvalidInput("Tidegate is attached to this Spark context already; stop that gate first: gate.stop()")
    gate = Gate(spark, chosen)
    _attached[application_id] = gate
    return gate


class Gate:
    """The handle on one controlled Spark context."""

    def __init__(self, spark: SparkSession, policy: Policy) -> None:
        self._spark = spark
        self.policy = policy
        self.failure: BaseException | None = None
        """What ended the control, where something did."""
        self.journal = SqliteJournal(policy.store or f"tidegate-{_file_name(spark.sparkContext.appName or 'job')}.db")
        # It goes with the process, not with this object: queries outlive their control.
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        _register_source(spark)
        self.cluster = SparkCluster(spark, policy, note=lambda event, text: self.journal.note(time.time(), event, text))
        self._clock = WallClock()
        knowledge = self.journal.load()
        if knowledge is not None:
            knowledge.classes.shares.clear()  # pools are as Spark made them, whatever was asked for in an earlier life
        self.controller = Controller(policy, knowledge)
        self._recording = (
            RecordingJournal(self.journal, HistoryWriter(Path(policy.history))) if policy.history else None
        )
        self.runner = Runner(self.cluster, self.controller, self._clock, self._recording or self.journal, self.journal)
        self._thread = threading.Thread(target=self._run, name="tidegate-control", daemon=True)
        self.journal.note(time.time(), "control-started", f"mode {policy.mode}, every {policy.interval_s:g} s")
        self._thread.start()
        atexit.register(self.stop)

    @property
    def running(self) -> bool:
        """Is the control alive?"""
        return self._thread.is_alive()

    @property
    def rebalancing(self) -> bool:
        """Is a query between two runs?"""
        return self.cluster.rebalancing

    def start(self, name: str, build: Build, checkpoint: str | Path | None = None) -> RestartableQuery:
        """Start a query that Tidegate may restart with other settings.

        `build(spark, settings)` returns a `DataStreamWriter` with its checkpoint location set, not started. Without a
        `checkpoint` here or one of its own in the build, the query's checkpoint goes with the process.
        """
        if name in self.cluster.restartable and self.cluster.restartable[name].query.isActive:
            raise InvalidInput(f"a query named {name!r} runs already")
        folder = self._folder / f"{_file_name(name)}-{crc32(name.encode()):08x}"  # names may differ in what is dropped
        rule = self.policy.applications.get(name)
        settings = Settings(
            name,
            gate=str(folder / "gate.json"),
            checkpoint=str(checkpoint or folder / "checkpoint"),
            pool=(rule.qos_class or "") if rule and self.policy.mode is Mode.APPLY else "",
        )
        query = RestartableQuery(self._spark, build, settings)
        self.cluster.restartable[name] = query
        return query

    def forget(self, name: str) -> None:
        """Let go of a query that has ended."""
        self.cluster.restartable.pop(name, None)

    def queries(self) -> list[RestartableQuery]:
        """The queries that were started through this gate."""
        return list(self.cluster.restartable.values())

    def capabilities(self) -> tuple[Capability, ...]:
        """What Tidegate can turn in this context: scheduler pools, and the admission of every query started here."""
        return self.cluster.capabilities()

    def settle(self, limit_s: float = 10.0) -> None:
        """Wait until the controller has taken another look: what has happened by now is then in the journal."""
        seen, deadline_s = self.runner.steps, time.monotonic() + limit_s
        while self.running and self.runner.steps < seen + 2 and time.monotonic() < deadline_s:
            time.sleep(0.02)

    def stop(self) -> None:
        """End the control; queries and executors stay as they are, admission and scheduler pools go back to theirs.

        So do `spark.locality.wait` (0) and dynamic allocation (off, where it was taken over).
        """
        self._clock.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_END_WAIT_S)
        atexit.unregister(self.stop)

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        """The thread's whole life. Whatever happens in here stays in here."""
        try:
            self.runner.run()
            self.journal.note(time.time(), "control-ended", "stopped")
        except BaseException as error:
            if self._context_stopped():
                self.journal.note(time.time(), "control-ended", "the Spark context was stopped")
                return
            self.failure = error
            text = f"{type(error).__name__}: {str(error).strip() or 'no message'}".splitlines()[0]
            logger.error("Tidegate's control has ended (%s); the job goes on without it", text)
            self.journal.note(time.time(), "control-failed", text)
        finally:
            self._close()

    def _context_stopped(self) -> bool:
        context = self._spark.sparkContext._jsc
        return context is None or bool(context.sc().isStopped())

    def _close(self) -> None:
        try:
            if not self._context_stopped():
                self.cluster.close()
            if self._recording is not None:
                self._recording.close(time.time())
        except Exception as error:
            logger.warning("the control did not end in good order: %s", str(error).splitlines()[0])


def _register_source(spark: SparkSession) -> None:
    """Make `format("tidegate")` known; a job that does not use it can do without."""
    try:
        spark.dataSource.register(TidegateSource)
    except (AttributeError, AnalysisException) as error:  # an older Spark, or known in another session already
        logger.info('format("tidegate") is not available in this session: %s', str(error).splitlines()[0])


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        raise InvalidInput(f"mode {str(mode)!r}: use off, recommend or apply") from None


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "job"
