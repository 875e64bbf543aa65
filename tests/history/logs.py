"""Event logs made for the tests: the lines that Spark would write, small."""

from __future__ import annotations

import json
from typing import Any

QUERY, RUN = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-aaaaaaaaaaaa"
START_MS = 1_749_999_960_000  # the first report's time


def progress(batch: int, **changes: Any) -> dict[str, Any]:
    """A progress report of a batch a second."""
    report: dict[str, Any] = {
        "id": QUERY,
        "runId": RUN,
        "name": "words",
        "timestamp": f"2025-06-15T15:{6 + batch // 60:02d}:{batch % 60:02d}.000Z",
        "batchId": batch,
        "numInputRows": 100 + batch,
        "durationMs": {"addBatch": 400 + batch, "triggerExecution": 600 + batch, "queryPlanning": 20, "walCommit": 30},
        "stateOperators": [{"numRowsTotal": 10 * batch, "memoryUsedBytes": 1000, "commitTimeMs": 5}],
        "sources": [
            {
                "startOffset": {"t": {"0": 100 * batch}},
                "endOffset": {"t": {"0": 100 * batch + 100 + batch}},
                "latestOffset": {"t": {"0": 100 * batch + 100 + 3 * batch}},
                "numInputRows": 100 + batch,
            }
        ],
        "sink": {"description": "console", "numOutputRows": -1},
    }
    return {**report, **changes}


def task_end(stage: int, task: int, batch: int) -> dict[str, Any]:
    """A task of a stage."""
    launched_ms = START_MS + 1000 * batch
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Info": {
            "Task ID": task,
            "Launch Time": launched_ms,
            "Finish Time": launched_ms + 100 + 10 * task % 7,
            "Failed": False,
            "Killed": False,
        },
        "Task Metrics": {
            "Executor Run Time": 90,
            "Executor CPU Time": 50_000_000,
            "JVM GC Time": 3,
            "Disk Bytes Spilled": 0,
            "Shuffle Read Metrics": {"Fetch Wait Time": 1, "Remote Bytes Read": 10, "Total Records Read": 5},
            "Shuffle Write Metrics": {
                "Shuffle Bytes Written": 20,
                "Shuffle Write Time": 1000,
                "Shuffle Records Written": 5,
            },
            "Input Metrics": {"Bytes Read": 500, "Records Read": 50},
        },
    }


def event_log(batches: int = 6) -> list[str]:
    """The lines of a whole log: two stages of two tasks for every batch."""
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.0.1"},
        {"Event": "SparkListenerApplicationStart", "App Name": "job", "App ID": "local-1", "Timestamp": START_MS},
        {
            "Event": "SparkListenerExecutorAdded",
            "Timestamp": START_MS - 1000,
            "Executor ID": "0",
            "Executor Info": {"Host": "h", "Total Cores": 4},
        },
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {}},
        {"Event": "org.example.SparkListenerOfTheFuture", "what": 1},
    ]
    for batch in range(batches):
        stages = [2 * batch, 2 * batch + 1]
        events.append(
            {
                "Event": "SparkListenerJobStart",
                "Job ID": batch,
                "Submission Time": START_MS + 1000 * batch,
                "Stage IDs": stages,
                "Properties": {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch)},
            }
        )
        events += [task_end(stage, task, batch) for stage in stages for task in range(2)]
        kind = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
        events.append({"Event": kind, "progress": progress(batch)})
    return [json.dumps(event) for event in events]
