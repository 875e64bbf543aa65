"""Ends a job cleanly: on Ctrl-C, when its time is up, or when its container is told to stop.

Interrupting the main thread during a call to the JVM would leave the answer unread and the batch incomplete. The
queries are therefore stopped first, from another thread: reading stops, the running batch may finish, and the queries
stop. A main thread that waits for them then continues by itself. It is interrupted only if it does not.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate

BATCH_WAIT_S = 10.0
"""How long the running batch may take to finish. A batch that is cut off is repeated by the next run."""
_LEAVE_WAIT_S = 2.0
_POLL_S = 0.05
_BY = "end"


class Ending:
    """One per run of a job. `reason` says why it ends; empty until someone requests it."""

    def __init__(self, told: Callable[[str], None] = lambda text: None) -> None:
        self._told = told
        self._main = threading.main_thread().ident or 0
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._timer: threading.Timer | None = None
        self._hard = False
        self._before: dict[int, Any] = {}
        """The original signal handlers."""
        self.spark: SparkSession | None = None
        self.gate: Gate | None = None
        self.reason = ""

    def listen(self) -> None:
        """Handle SIGINT and SIGTERM. Call it again after Spark has started, which installs its own handler.

        Spark's handler cancels all jobs, which fails the running batch.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before.setdefault(number, signal.signal(number, self._on_signal))

    def after(self, duration_s: float) -> None:
        """End after this time, counted from the first call."""
        if self._timer is not None:
            return
        self._timer = threading.Timer(duration_s, self.request, ("the time is up",))
        self._timer.daemon = True
        self._timer.start()

    def request(self, reason: str) -> None:
        """Start ending the job. A second request changes nothing."""
        with self._lock:
            if self.reason:
                return
            self.reason = reason
        self._told(f"{reason}: waiting up to {BATCH_WAIT_S:.0f} s for the running batch")
        threading.Thread(target=self._end, name="tidegate-ending", daemon=True).start()

    def left(self) -> None:
        """The main thread has left the job: nothing needs to be interrupted, and the signal handlers are restored."""
        self._left.set()
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._before.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.reason or self._hard:
            raise KeyboardInterrupt  # requested a second time, or our own wait is over
        self.request("interrupted" if number == signal.SIGINT else "terminated")

    def _end(self) -> None:
        for attempt in itertools.count():
            if self.spark is not None:  # includes queries that the job has started since
                end_queries(self.spark, self.gate, BATCH_WAIT_S if attempt == 0 else 0.0)
            if self._left.wait(_LEAVE_WAIT_S):
                return
            if attempt > 0:
                self._hard = True
                signal.pthread_kill(self._main, signal.SIGINT)


def end_queries(spark: SparkSession, gate: Gate | None, patience_s: float) -> None:
    """Start no further batch, wait for running ones, and stop all queries."""
    own = {query.name: query for query in gate.queries()} if gate is not None else {}
    active = [query for query in spark.streams.active if query.isActive]
    if gate is not None:
        names = {query.id: query.name or f"query-{query.id[:8]}" for query in active}
        for name in names.values():
            gate.cluster.limits.pause(name, _BY, 6 * patience_s)
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            running = [query for query in active if query.isActive and query.status["isTriggerActive"]]
            if not running and all(gate.cluster.limits.quiet(name, 0.1) for name in names.values()):
                break
            time.sleep(_POLL_S)
    for query in active:
        if query.name in own:
            own[query.name].kill()
        else:
            query.stop()
    if gate is not None:
        for query in active:
            gate.cluster.limits.resume(query.name or f"query-{query.id[:8]}", _BY)
