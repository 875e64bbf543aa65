"""Queries that can be restarted: a recipe, the settings it was last built with, and the query that runs now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.domain import InvalidInput
from tidegate.spark.admission import Admission, InForce, forget_gate, read_answer, write_admission
from tidegate.spark.pools import in_pool
from tidegate.spark.rebalance import Rebalanced, RebalanceFailed, Transaction, rebalance, recover
from tidegate.spark.settings import LIMIT, Settings

Build = Callable[[SparkSession, Settings], DataStreamWriter]

_BOUNDARY_WAIT_S = 60.0
_PENDING_WAIT_S = 120
_POLL_S = 0.005
_END_POLL_S = 0.2
_DRAIN = "drain"
_STARTING = threading.Lock()
"""Building a query sets the session's configuration, which the query takes over when it starts: one at a time."""
_CLOSED = Admission(rows_per_trigger=1, interval_s=1e12)  # longer than the time since the epoch


class RestartableQuery:
    """One query and how to build it again. Its checkpoint makes every restart go on exactly where it stopped."""

    def __init__(self, spark: SparkSession, build: Build, settings: Settings) -> None:
        self.spark = spark
        self._build = build
        self._lock = threading.Lock()
        self._gate_lock = threading.Lock()  # the control holds batches while the user's thread may stop the query
        self._gate = Path(settings.gate)
        forget_gate(self._gate)  # an earlier query of this name may have left it closed
        self._over = False
        self._asked: Admission | None = None
        self._closed_by: set[str] = set()
        self.settings = recover(spark, settings) if settings.checkpoint else settings
        self.query = self._start(self.settings)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def gate_answer(self) -> InForce | None:
        """What the source said when it was last asked for rows; None where it has no gate, or was never asked."""
        return read_answer(self._gate)

    @property
    def gated(self) -> bool:
        return self.gate_answer is not None

    @property
    def limited(self) -> bool:
        """Does its source take a limit, though only when it starts?"""
        return not self.gated and LIMIT in self.settings.used

    @property
    def admission(self) -> Admission | None:
        """What the source's gate is set to, also while it is closed for a moment; None where there is no gate."""
        answer = self.gate_answer
        if answer is None:
            return None
        with self._gate_lock:
            # Closed for a moment is not what it is set to: whoever turns one knob must not make that last.
            return self._asked or (Admission() if answer.admission == _CLOSED else answer.admission)

    def admit(self, admission: Admission) -> None:
        """Turn the source's gate, without a restart; a closed gate takes it up when it opens."""
        with self._gate_lock:
            self._asked = admission
            if not self._closed_by:
                write_admission(self._gate, admission)

    def close_gate(self, by: str) -> None:
        """Let no further batch begin, where the source has a gate; it stays closed until all who closed it open it."""
        with self._gate_lock:
            if not self._closed_by and self.gated:
                write_admission(self._gate, _CLOSED)
            self._closed_by.add(by)

    def open_gate(self, by: str) -> None:
        """Give the gate back what is asked of it, or no word at all."""
        with self._gate_lock:
            if by not in self._closed_by:
                return
            self._closed_by.discard(by)
            if self._closed_by:
                return
            if self._asked is None:
                self._gate.unlink(missing_ok=True)
            else:
                write_admission(self._gate, self._asked)

    def release(self) -> None:
        """Take back all that was asked of the source: its own limit holds again."""
        with self._gate_lock:
            self._asked = None
            if not self._closed_by:
                self._gate.unlink(missing_ok=True)
        if self.settings.rows_per_trigger is not None and self.query.isActive:
            self.restart(self.settings.with_limit(None))

    def rebalance(
        self, settings: Settings, partitions: int | None = None, told: Callable[[Transaction], None] = lambda _: None
    ) -> Rebalanced:
        """Go on with other settings, and with the state in so many partitions where it is to move.

        Raises `RebalanceFailed` where it did not work and the query runs as before.
        """
        with self._lock:
            if self._over or not self.query.isActive:
                raise RebalanceFailed("nothing changed: the query does not run any more")
            return rebalance(self, settings, partitions, told)

    def restart(self, settings: Settings) -> float:
        """Go on with other settings; the pause in seconds."""
        return self.rebalance(settings).pause_s

    def await_end(self, limit_s: float | None = None) -> bool:
        """Wait until the query has ended for good; a rebalance in between is no end. False where time ran out."""
        deadline_s = time.monotonic() + (limit_s if limit_s is not None else float("inf"))
        while time.monotonic() < deadline_s:
            if not self.query.isActive and self._lock.acquire(blocking=False):
                try:
                    if not self.query.isActive:
                        return True
                finally:
                    self._lock.release()
            time.sleep(_END_POLL_S)
        return False

    def stop_at_boundary(self) -> None:
        """Stop between two batches, for good; a rebalance that is under way ends first."""
        with self._lock:
            self._over = True
            self.drain()
            self.open_gate(_DRAIN)  # the next run must not find it closed

    def kill(self) -> None:
        """Stop now, whatever it is doing; a rebalance that is under way starts nothing any more."""
        self._over = True
        self.query.stop()

    # what a rebalance asks for

    def drain(self) -> None:
        """Stop between two batches: close the gate where there is one, and wait until no trigger is active."""
        self.close_gate(_DRAIN)
        deadline_s = time.monotonic() + _BOUNDARY_WAIT_S
        while self.query.isActive and time.monotonic() < deadline_s:
            if not self.query.status["isTriggerActive"]:
                break
            time.sleep(_POLL_S)
        self.query.stop()

    def finish_pending(self) -> None:
        """Run the batch that a stop has cut to its end: with the gate closed, a single trigger takes nothing more."""
        pending = self._start(self.settings, once=True)
        pending.awaitTermination(_PENDING_WAIT_S)
        pending.stop()

    def begin(self, settings: Settings) -> None:
        self.open_gate(_DRAIN)
        if self._over:
            raise RebalanceFailed("nothing was started: the query was ended meanwhile")
        self.query = self._start(settings)
        self.settings = settings
        if self._over:  # killed while it was being started
            self.query.stop()

    def _start(self, settings: Settings, once: bool = False) -> StreamingQuery:
        with _STARTING:
            # Adaptive execution would merge and rename the stages that operators are known by; the setting can be put
            # back right after.
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
