"""Spark's event log of a simulated run: what Spark would have written, and nothing else that the simulator knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.history.logs import QUERY, RUN
from tidegate.domain import BatchSample, ExecutorSample, Observation
from tidegate.domain.python310 import UTC

EPOCH_S = 1_750_000_000
"""The time when the simulated time was 0."""


def event_log_of(seen: Sequence[Observation]) -> list[str]:
    """The lines of the log: executors, and a job with a stage for each operator of every batch."""
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"},
        {"Event": "SparkListenerApplicationStart", "App Name": "job", "App ID": "app-1", "Timestamp": _ms(0)},
    ]
    there: dict[str, ExecutorSample] = {}
    for one in seen:
        now = {executor.id: executor for executor in one.pool.executors}
        for name in now.keys() - there.keys():
            info = {"Host": "h", "Total Cores": now[name].slots}
            events.append(_about_executor("Added", one.time_s, name) | {"Executor Info": info})
        events += [_about_executor("Removed", one.time_s, name) for name in there.keys() - now.keys()]
        there = now
        for batch in one.applications[0].batches:
            events += _batch(batch)
    return [json.dumps(event) for event in events]


def _about_executor(what: str, time_s: float, name: str) -> dict[str, Any]:
    return {"Event": f"SparkListenerExecutor{what}", "Timestamp": _ms(time_s), "Executor ID": name}


def _batch(batch: BatchSample) -> list[dict[str, Any]]:
    stages = {10 * batch.batch_id + place: operator for place, operator in enumerate(batch.operators)}
    job = {
        "Event": "SparkListenerJobStart",
        "Job ID": batch.batch_id,
        "Submission Time": _ms(batch.started_s),
        "Stage IDs": list(stages),
        "Properties": {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch.batch_id)},
    }
    tasks = [
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": stage,
            "Task Info": {"Launch Time": _ms(batch.started_s), "Finish Time": _ms(batch.committed_s)},
            "Task Metrics": {"Executor Run Time": 1000 * operator.busy_s / operator.parallelism},
        }
        for stage, operator in stages.items()
        for _ in range(operator.parallelism)
    ]
    report = {
        "id": QUERY,
        "runId": RUN,
        "name": "words",
        "timestamp": datetime.fromtimestamp(_ms(batch.started_s) / 1000, UTC).isoformat(),
        "batchId": batch.batch_id,
        "numInputRows": batch.rows,
        "durationMs": {"triggerExecution": 1000 * batch.duration_s, "addBatch": 1000 * batch.duration_s},
        "sources": [{"numInputRows": batch.rows}],
    }
    kind = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return [job, *tasks, {"Event": kind, "progress": report}]


def _ms(time_s: float) -> int:
    return round(1000 * (EPOCH_S + time_s))
