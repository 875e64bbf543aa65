"""Collects what streaming queries say, in every session of a Spark context.

A listener hears its own session only, so one is added to each session that turns up. Events are kept as the JSON
that the JVM makes of them: PySpark's own listener would cross the bridge some hundred times for a report.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

_MOST_EVENTS = 10_000
_LOOK_AGAIN_S = 3.0


@dataclass(frozen=True, slots=True)
class Terminated:
    """A query has ended, by itself or with an error."""

    run_id: str
    error: str | None


@dataclass(frozen=True, slots=True)
class ActiveQuery:
    """A running query as the driver knows it."""

    query_id: str
    run_id: str
    name: str | None
    java: Any

    @property
    def between_batches(self) -> bool:
        return not bool(self.java.status().isTriggerActive())


class ProgressFeed:
    """Progress reports and ends of queries, taken out by `drain`."""

    def __init__(self, spark: SparkSession) -> None:
        self._shared = spark._jsparkSession.sharedState()
        self._reports: deque[str] = deque(maxlen=_MOST_EVENTS)
        self._ended: deque[Terminated] = deque(maxlen=_MOST_EVENTS)
        self._idle: set[str] = set()
        self._sessions: dict[str, Any] = {}
        self._active: list[ActiveQuery] = []
        self._changed = True
        self._looked_s = 0.0
        self._lock = threading.Lock()
        gateway = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        jvm: Any = spark.sparkContext._jvm
        self._java_listener = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_Listener(self))
        self._listen(spark._jsparkSession)

    def active(self) -> list[ActiveQuery]:
        """Every running query of the context, whichever session started it; new sessions are listened to.

        Asked again when a query has started or ended, and every few seconds for those that nobody listens to yet.
        """
        if not self._changed and time.monotonic() - self._looked_s < _LOOK_AGAIN_S:
            return self._active
        self._changed, self._looked_s = False, time.monotonic()
        queries = []
        for found in list(self._shared.activeStreamingQueries().values()):
            self._listen(found.sparkSession())
            queries.append(ActiveQuery(str(found.id()), str(found.runId()), found.name(), found))
        self._active = queries
        return queries

    def drain(self) -> tuple[list[str], list[Terminated], set[str]]:
        """Reports, ends, and run ids that said they were idle, since the last call."""
        with self._lock:
            reports, ended, idle = list(self._reports), list(self._ended), self._idle
            self._reports.clear()
            self._ended.clear()
            self._idle = set()
        return reports, ended, idle

    def close(self) -> None:
        for session in self._sessions.values():
            session.streams().removeListener(self._java_listener)
        self._sessions.clear()

    def _listen(self, java_session: Any) -> None:
        key = str(java_session.sessionUUID())
        if key not in self._sessions:
            java_session.streams().addListener(self._java_listener)
            self._sessions[key] = java_session

    def _report(self, text: str) -> None:
        with self._lock:
            self._reports.append(text)

    def _end(self, ended: Terminated) -> None:
        with self._lock:
            self._ended.append(ended)
        self._changed = True

    def _is_idle(self, run_id: str) -> None:
        with self._lock:
            self._idle.add(run_id)


class _Listener:
    """Implements Spark's listener interface through py4j; method names are Spark's."""

    def __init__(self, feed: ProgressFeed) -> None:
        self._feed = feed

    def onQueryStarted(self, event: Any) -> None:
        self._feed._changed = True

    def onQueryProgress(self, event: Any) -> None:
        self._feed._report(event.progress().json())

    def onQueryIdle(self, event: Any) -> None:
        self._feed._is_idle(str(event.runId()))

    def onQueryTerminated(self, event: Any) -> None:
        error = event.exception()
        text = (str(error.get()).strip().splitlines() or ["unknown"])[0] if error.isDefined() else None
        self._feed._end(Terminated(str(event.runId()), text))

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012 (py4j wants a list)
