"""Queries that can be restarted: a recipe, its last settings, and the running query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.gatefile import GateLimit, GateRequest, InForce, forget_gate, read_answer, write_request
from tidegate.adapters.spark.limits import SourceLimits
from tidegate.adapters.spark.rebalance import Rebalanced, rebalance
from tidegate.adapters.spark.schedulerpools import in_pool
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.transaction import QueryEnded, RebalanceFailed, Transaction, first_line, recover
from tidegate.domain import InvalidInput, QueryFailed

Build = Callable[[SparkSession, Settings], DataStreamWriter]

_BOUNDARY_WAIT_S = 60.0
_PENDING_WAIT_S = 120
_POLL_S = 0.005
_END_POLL_S = 0.2
_DRAIN = "drain"
_STARTING = threading.Lock()
"""Building a query sets the session's configuration, which the query copies when it starts: one at a time."""
_CLOSED_AT_MOST_S = 90.0
"""A closure expires after this time: longer than the wait for a batch, short enough to do little harm."""


class RestartableQuery:
    """One query and how to build it again. With its checkpoint, every restart continues exactly where it stopped."""

    def __init__(
        self,
        spark: SparkSession,
        build: Build,
        settings: Settings,
        limits: SourceLimits | None = None,
        first: GateLimit | None = None,
    ) -> None:
        """`first`: the setting of the source's gate before the first batch."""
        self.spark = spark
        self._limits = limits
        self._build = build
        self._lock = threading.Lock()
        self._gate_lock = threading.Lock()  # control holds batches while the user's thread may stop the query
        self._gate = Path(settings.gate)
        forget_gate(self._gate)  # an earlier query of this name may have left it closed
        self._over = False
        self._asked = first
        self._closed_until_s: dict[str, float] = {}
        self._failure: Exception | None = None
        self.settings = recover(spark, settings) if settings.checkpoint else settings
        if self._asked is not None:
            self._ask()
        self.query = self._start(self.settings)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def gate_answer(self) -> InForce | None:
        """The source's answer when rows were last requested; None if it has no gate, or they never were."""
        return read_answer(self._gate)

    @property
    def gated(self) -> bool:
        return self.gate_answer is not None

    @property
    def admission(self) -> GateLimit | None:
        """The setting of the source's gate, even while it is briefly closed; None if there is no gate."""
        answer = self.gate_answer
        if answer is None:
            return None
        with self._gate_lock:
            return self._asked or answer.admission

    @property
    def writes_files(self) -> bool:
        """Does it write to Spark's file sink, which needs to see every batch?"""
        return str(self.query._jsq.streamingQuery().sink().getClass().getSimpleName()) == "FileStreamSink"

    @property
    def failure(self) -> Exception | None:
        """Why the query does not run: the error that ended it, or that kept it from restarting."""
        return self._failure or self.query.exception()

    def admit(self, admission: GateLimit) -> None:
        """Set the limit of the source's gate, without a restart. If the gate is closed, it applies after opening."""
        with self._gate_lock:
            self._asked = admission
            self._ask()

    def close_gate(self, by: str) -> None:
        """Start no further batch with rows, if the source supports a limit.

        It stays closed until everyone who closed it opens it, but at most `_CLOSED_AT_MOST_S` after the last call.
        """
        if self._limits is not None:
            self._limits.pause(self.name, by, _CLOSED_AT_MOST_S)
        with self._gate_lock:
            self._closed_until_s[by] = time.time() + _CLOSED_AT_MOST_S
            if self.gated:
                self._ask()

    def open_gate(self, by: str) -> None:
        """Restore the gate to the last requested limit, or remove the limit."""
        if self._limits is not None:
            self._limits.resume(self.name, by)
        with self._gate_lock:
            if self._closed_until_s.pop(by, None) is not None:
                self._ask()

    def _ask(self) -> None:
        """Write the request to the gate: a limit, a closure, both, or nothing."""
        closed_until_s = max(self._closed_until_s.values(), default=0.0)
        if self._asked is None and not closed_until_s:
            self._gate.unlink(missing_ok=True)
        else:
            write_request(self._gate, GateRequest(self._asked, closed_until_s))

    def release(self) -> None:
        """Withdraw all requests to the source, so that its own limit applies again."""
        with self._gate_lock:
            self._asked = None
            self._ask()

    def rebalance(
        self, settings: Settings, partitions: int | None = None, told: Callable[[Transaction], None] = lambda _: None
    ) -> Rebalanced:
        """Continue with other settings, and with the state in this many partitions if given.

        Raises `RebalanceFailed` if it did not work. If the query does not run then, `failure` says so too.
        """
        with self._lock:
            if self._over or not self.query.isActive:
                raise RebalanceFailed("nothing changed: the query no longer runs")
            try:
                return rebalance(self, settings, partitions, told)
            except Exception as error:
                if not self._over and not self.query.isActive:
                    self._failure = error
                raise
            finally:
                self.open_gate(_DRAIN)

    def restart(self, settings: Settings) -> float:
        """Continue with other settings. Returns the pause in seconds."""
        return self.rebalance(settings).pause_s

    def await_end(self, limit_s: float | None = None) -> bool:
        """Wait until the query has ended for good; a rebalance is not an end. False if the time runs out.

        Raises `QueryFailed` if an error ended it, or kept it from restarting after a rebalance.
        """
        deadline_s = time.monotonic() + (limit_s if limit_s is not None else float("inf"))
        while time.monotonic() < deadline_s:
            if self.has_ended():
                self._check()
                return True
            time.sleep(_END_POLL_S)
        return False

    def has_ended(self) -> bool:
        """Has the query ended for good? In the middle of a rebalance it may look as if it had."""
        if self.query.isActive or not self._lock.acquire(blocking=False):
            return False
        try:
            return not self.query.isActive
        finally:
            self._lock.release()

    def await_rebalance(self) -> None:
        """Wait until no rebalance is in progress."""
        with self._lock:
            return

    def _check(self) -> None:
        failure = self.failure
        if failure is not None:
            raise QueryFailed(f"{self.name} has failed: {first_line(failure)}") from failure

    def stop_at_boundary(self) -> None:
        """Stop between two batches, for good. A rebalance in progress ends first."""
        with self._lock:
            self._over = True
            try:
                self.drain()
            finally:
                self.open_gate(_DRAIN)  # the next run, or this one if it did not stop, must not find the gate closed

    def kill(self) -> None:
        """Stop now, whatever it is doing. A rebalance in progress starts nothing any more."""
        self._over = True
        self.query.stop()

    # used by a rebalance

    def drain(self) -> None:
        """Stop between two batches: close the gate, if any, and wait until all planned batches are committed."""
        self.close_gate(_DRAIN)
        deadline_s = time.monotonic() + _BOUNDARY_WAIT_S
        while self.query.isActive and time.monotonic() < deadline_s:
            if not self.query.status["isTriggerActive"] and (self._limits is None or self._limits.quiet(self.name)):
                break
            time.sleep(_POLL_S)
        self.query.stop()

    def finish_pending(self) -> None:
        """Complete the batch that a stop has cut off: with the gate closed, a single trigger takes nothing more."""
        self.close_gate(_DRAIN)
        pending = self._start(self.settings, once=True)
        pending.awaitTermination(_PENDING_WAIT_S)
        pending.stop()

    def begin(self, settings: Settings) -> None:
        self.open_gate(_DRAIN)
        if self._over:
            raise QueryEnded("nothing was started: the query was stopped in the meantime")
        self.query = self._start(settings)
        self.settings = settings
        self._failure = None
        if self._over:  # killed while it was starting
            self.query.stop()

    def _start(self, settings: Settings, once: bool = False) -> StreamingQuery:
        with _STARTING:
            # Adaptive execution would merge and rename the stages by which operators are known. The setting can be
            # restored right after.
            before = self.spark.conf.get("spark.sql.adaptive.enabled", "true")
            self.spark.conf.set("spark.sql.adaptive.enabled", "false")
            try:
                writer = self._build(self.spark, settings)
                if not isinstance(writer, DataStreamWriter):
                    raise InvalidInput(
                        f"{settings.name}: build must return a DataStreamWriter (df.writeStream…, without .start()), "
                        f"not {type(writer).__name__}"
                    )
                with in_pool(self.spark.sparkContext, settings.pool) if settings.pool else nullcontext():
                    return (writer.trigger(once=True) if once else writer).queryName(settings.name).start()
            finally:
                self.spark.conf.set("spark.sql.adaptive.enabled", str(before))
