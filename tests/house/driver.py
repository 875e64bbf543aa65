"""A driver without a JVM: it answers the adapter's calls with progress reports as Spark 4 writes them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any
from unittest.mock import MagicMock, patch

from tidegate.adapters.spark.cluster import SparkCluster
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain.policy import Policy

QUERY, RUN = "b5b4d9b0-6e6f-4c08-8f1b-0e4d5a0a1f11", "6e2c8c39-1a43-4f51-9a5c-b7a0d7a2f0d3"
START_S = 1_767_225_600.0
_TASKS = 8

REPORT: dict[str, Any] = {
    "id": QUERY,
    "runId": RUN,
    "name": "words",
    "timestamp": "",
    "batchId": 0,
    "batchDuration": 0,
    "numInputRows": 0,
    "inputRowsPerSecond": 0.0,
    "processedRowsPerSecond": 0.0,
    "durationMs": {
        "addBatch": 0,
        "commitBatch": 31,
        "commitOffsets": 28,
        "getBatch": 0,
        "latestOffset": 4,
        "queryPlanning": 14,
        "triggerExecution": 0,
        "walCommit": 30,
    },
    "stateOperators": [],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[lines]]",
            "startOffset": {"lines": {"0": 0}},
            "endOffset": {"lines": {"0": 0}},
            "latestOffset": {"lines": {"0": 0}},
            "numInputRows": 0,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 0.0,
            "metrics": {"avgOffsetsBehindLatest": "0.0", "maxOffsetsBehindLatest": "0", "minOffsetsBehindLatest": "0"},
        }
    ],
    "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    "observedMetrics": {},
}


def progress(batch: int, began_s: float, took_s: float, rows: int, waiting: int) -> str:
    """The report of a batch of `rows` rows that left `waiting` rows behind."""
    took_ms, first = round(took_s * 1000), 1000 * batch
    (source,) = REPORT["sources"]
    offsets = {"startOffset": first, "endOffset": first + rows, "latestOffset": first + rows + waiting}
    report = {
        **REPORT,
        "timestamp": datetime.fromtimestamp(began_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "batchId": batch,
        "batchDuration": took_ms,
        "numInputRows": rows,
        "durationMs": {**REPORT["durationMs"], "addBatch": took_ms - 110, "triggerExecution": took_ms},
        "sources": [{**source, "numInputRows": rows, **{key: {"lines": {"0": at}} for key, at in offsets.items()}}],
    }
    return json.dumps(report, separators=(",", ":"))


class Driver:
    """The driver as the adapter sees it: it answers like `Watcher.java`, and remembers what was requested of it."""

    def __init__(self, executors: int) -> None:
        self.lines: list[str] = []
        self.executors = executors
        self.session = MagicMock(name="SparkSession")
        context = self.session.sparkContext
        context.master = "spark://driver:7077"
        self.scala = context._jsc.sc.return_value
        self.scala.isLocal.return_value = False
        self.scala.conf.return_value.getSizeAsBytes.return_value = 1 << 30
        self.scala.executorAllocationManager.return_value.isDefined.return_value = False
        self.scala.requestTotalExecutors.side_effect = self._request
        self.java = MagicMock(name="Watcher.java")
        self.java.look.side_effect = self._look
        self.java.executors.side_effect = lambda: self._registered()
        self.java.query.return_value = MagicMock(name="MicroBatchExecution")
        query = self.java.query.return_value
        query.trigger.return_value.toString.return_value = "ProcessingTimeTrigger(1000)"
        query.lastProgress.return_value = query.lastExecution.return_value = None
        self.requested: list[int] = []

    def batch(self, batch: int, began_s: float, took_s: float, rows: int, waiting: int = 0) -> None:
        """A batch has ended: its stage and its report are in the next answer."""
        busy_ms, ended_ms = round(1000 * (took_s - 0.11)), round(1000 * (began_s + took_s))
        stage = [RUN, batch, batch, 1, _TASKS, busy_ms // 4, 0, round(1000 * began_s) + 80, ended_ms - 30]
        counts = [2 * busy_ms, busy_ms * 1_500_000, 1, 0, rows, 0, 0, rows, 90 * rows, 90 * rows, 0, 5, 0, 0, 0]
        where = ",".join(f"{place}:{place % self.executors}" for place in range(_TASKS))
        self.lines += [f"B\t{RUN}\t{batch}\t{batch}", "S\t" + "\t".join(map(str, [*stage, *counts, where]))]
        self.lines += ["P\t" + progress(batch, began_s, took_s, rows, waiting)]

    def _look(self) -> str:
        fresh, self.lines = self.lines, []
        return "\n".join([f"Q\t{QUERY}\t{RUN}\t0\twords", self._registered(), *fresh])

    def _registered(self) -> str:
        return "\n".join(f"X\t{one}\thost-{one}:35000\t2\t0\t{round(1000 * START_S)}" for one in range(self.executors))

    def _request(self, target: int, *_: Any) -> bool:
        self.requested.append(target)
        return True


class Overload:
    """A job on one executor under Tidegate's control: a minute of calm, then more rows than the executor can process.

    `tick` reports one batch and runs one control step.
    """

    def __init__(self) -> None:
        self.driver, self._now_s, self._batch, self._waiting = Driver(executors=1), START_S, 0, 0
        settings = {"mode": "apply", "objective": {"latency_s": 10}, "executors": {"min": 1, "max": 6}}
        policy, journal = Policy.model_validate(settings), MemoryJournal()
        java = [
            patch(f"tidegate.adapters.spark.{module}.new_inside", return_value=self.driver.java)
            for module in ("watcher", "limits")
        ]
        with java[0], java[1]:
            cluster = SparkCluster(self.driver.session, policy)
        self.runner = Runner(cluster, Controller(policy), self, journal, journal)

    def tick(self) -> None:
        rows, self._waiting = (200, 0) if self._batch < 60 else (2000, self._waiting + 400)
        took_s = 0.15 + 0.0006 * rows
        began_s, self._now_s = self._now_s, self._now_s + max(1.0, took_s)
        self.driver.batch(self._batch, began_s, took_s, rows, self._waiting)
        self._batch += 1
        with patch("time.time", self.now_s):
            self.runner.tick()

    def now_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._now_s

    def sleep_until(self, monotonic_s: float) -> bool:
        return True
