"""Aggregates the tasks of an event log by stage, and the stages by streaming batch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tidegate.domain import OperatorSample
from tidegate.history.fields import amount, items, seconds, section, text, whole

_DESCRIBED = re.compile(r"(?<![a-zA-Z])id = ([0-9a-f-]+)\s+runId = ([0-9a-f-]+)\s+batch = (\d+)")
_MOST_DURATIONS = 4096  # task durations kept per stage, for the median
BatchKey = tuple[str, int]
"""Query id and batch id; for jobs without a query ("", job id)."""


@dataclass(slots=True)
class StageTotals:
    """Totals over the tasks of one stage."""

    tasks: int = 0
    failed: int = 0
    run_s: float = 0.0
    cpu_s: float = 0.0
    gc_s: float = 0.0
    deserialise_s: float = 0.0
    fetch_wait_s: float = 0.0
    write_s: float = 0.0
    input_rows: float = 0.0
    input_bytes: float = 0.0
    shuffle_read_rows: float = 0.0
    shuffle_read_bytes: float = 0.0
    shuffle_write_rows: float = 0.0
    shuffle_write_bytes: float = 0.0
    output_rows: float = 0.0
    spill_bytes: float = 0.0
    peak_memory_bytes: float = 0.0
    first_launch_s: float | None = None
    last_finish_s: float | None = None
    durations_s: list[float] = field(default_factory=list)

    def add(self, event: dict[str, Any]) -> None:
        """Add one SparkListenerTaskEnd event."""
        info, metrics = section(event.get("Task Info")), section(event.get("Task Metrics"))
        launched_s, finished_s = seconds(info.get("Launch Time")), seconds(info.get("Finish Time"))
        if info.get("Failed") is True or info.get("Killed") is True:
            self.failed += 1
        else:
            self.tasks += 1
            if launched_s and finished_s and finished_s >= launched_s and len(self.durations_s) < _MOST_DURATIONS:
                self.durations_s.append(finished_s - launched_s)
        if launched_s:
            self.first_launch_s = min(launched_s, self.first_launch_s or launched_s)
        if finished_s:
            self.last_finish_s = max(finished_s, self.last_finish_s or finished_s)
        read, write = section(metrics.get("Shuffle Read Metrics")), section(metrics.get("Shuffle Write Metrics"))
        source, sink = section(metrics.get("Input Metrics")), section(metrics.get("Output Metrics"))
        self.run_s += seconds(metrics.get("Executor Run Time")) or 0.0
        self.cpu_s += (amount(metrics.get("Executor CPU Time")) or 0.0) / 1e9
        self.gc_s += seconds(metrics.get("JVM GC Time")) or 0.0
        self.deserialise_s += seconds(metrics.get("Executor Deserialize Time")) or 0.0
        self.fetch_wait_s += seconds(read.get("Fetch Wait Time")) or 0.0
        self.write_s += (amount(write.get("Shuffle Write Time")) or 0.0) / 1e9
        self.input_rows += amount(source.get("Records Read")) or 0.0
        self.input_bytes += amount(source.get("Bytes Read")) or 0.0
        self.shuffle_read_rows += amount(read.get("Total Records Read")) or 0.0
        self.shuffle_read_bytes += amount(read.get("Remote Bytes Read")) or 0.0
        self.shuffle_read_bytes += amount(read.get("Local Bytes Read")) or 0.0
        self.shuffle_write_rows += amount(write.get("Shuffle Records Written")) or 0.0
        self.shuffle_write_bytes += amount(write.get("Shuffle Bytes Written")) or 0.0
        self.output_rows += amount(sink.get("Records Written")) or 0.0
        self.spill_bytes += amount(metrics.get("Disk Bytes Spilled")) or 0.0
        self.peak_memory_bytes = max(self.peak_memory_bytes, amount(metrics.get("Peak Execution Memory")) or 0.0)

    @property
    def execute_latency_s(self) -> float | None:
        """From the first task's launch to the last task's end."""
        if self.first_launch_s is None or self.last_finish_s is None or self.last_finish_s < self.first_launch_s:
            return None
        return self.last_finish_s - self.first_launch_s

    @property
    def skew(self) -> float | None:
        """Slowest ÷ median task; None for a single task."""
        middle = median(self.durations_s) if len(self.durations_s) > 1 else 0.0
        return max(self.durations_s) / middle if middle > 0 else None


class StageBook:
    """All stages of a log. Jobs link stages to batches."""

    def __init__(self) -> None:
        self._stages: dict[int, StageTotals] = {}
        self._owner: dict[int, BatchKey] = {}
        self._job_start_s: dict[BatchKey, float] = {}

    def job_started(self, event: dict[str, Any]) -> None:
        """SparkListenerJobStart names the batch and lists the stages."""
        key = batch_of(section(event.get("Properties")))
        job = whole(event.get("Job ID"))
        if key is None and job is None:
            raise ValueError("a job has a number")
        key = key or ("", job or 0)
        submitted_s = seconds(event.get("Submission Time"))
        if submitted_s is not None:
            self._job_start_s[key] = min(submitted_s, self._job_start_s.get(key, submitted_s))
        for listed in items(event.get("Stage IDs")):
            stage = whole(listed)
            if stage is not None:
                self._owner.setdefault(stage, key)

    def stage_submitted(self, event: dict[str, Any]) -> None:
        """SparkListenerStageSubmitted also carries the batch, which helps if the job's line is lost."""
        stage = whole(section(event.get("Stage Info")).get("Stage ID"))
        key = batch_of(section(event.get("Properties")))
        if stage is not None and key is not None:
            self._owner.setdefault(stage, key)

    def task_ended(self, event: dict[str, Any]) -> None:
        stage = whole(event.get("Stage ID"))
        if stage is None:
            raise ValueError("a task belongs to a stage")
        self._stages.setdefault(stage, StageTotals()).add(event)

    def by_batch(self) -> dict[BatchKey, list[StageTotals]]:
        """Return the stages that ran tasks, in plan order, by batch."""
        found: dict[BatchKey, list[StageTotals]] = {}
        for stage in sorted(self._stages):
            if stage in self._owner:
                found.setdefault(self._owner[stage], []).append(self._stages[stage])
        return found

    def jobs(self) -> dict[BatchKey, float]:
        """Return when the jobs of each batch started."""
        return dict(self._job_start_s)


def batch_of(properties: dict[str, Any]) -> BatchKey | None:
    """Return the batch of a job, from its properties or, if those are missing, its description.

    >>> batch_of({"sql.streaming.queryId": "ab-1", "streaming.sql.batchId": "4"})
    ('ab-1', 4)
    >>> batch_of({"spark.job.description": "words\\nid = ab-1\\nrunId = cd-2\\nbatch = 7"})
    ('ab-1', 7)
    """
    query, batch = text(properties.get("sql.streaming.queryId")), whole(properties.get("streaming.sql.batchId"))
    if query is not None and batch is not None:
        return query, batch
    described = _DESCRIBED.search(text(properties.get("spark.job.description")) or "")
    return (described.group(1), int(described.group(3))) if described and len(described.group(3)) < 19 else None


def stage_metrics(stages: Iterable[StageTotals]) -> dict[str, float]:
    """Return the totals of a batch, by their names in the catalogue."""
    stages = list(stages)
    found = {
        "tasks": float(sum(stage.tasks for stage in stages)),
        "tasks_failed": float(sum(stage.failed for stage in stages)),
        "gc_s": sum(stage.gc_s for stage in stages),
        "deserialise_s": sum(stage.deserialise_s for stage in stages),
        "fetch_wait_s": sum(stage.fetch_wait_s for stage in stages),
        "input_bytes": sum(stage.input_bytes for stage in stages),
        "shuffle_read_bytes": sum(stage.shuffle_read_bytes for stage in stages),
        "shuffle_write_bytes": sum(stage.shuffle_write_bytes for stage in stages),
        "spill_bytes": sum(stage.spill_bytes for stage in stages),
        "peak_memory_bytes": max((stage.peak_memory_bytes for stage in stages), default=0.0),
    }
    skews = [skew for stage in stages if (skew := stage.skew) is not None]
    return found | ({"task_skew": max(skews)} if skews else {})


def operator_of(
    name: str, stage: StageTotals, rows_in: int | None, rows_out: int | None, stateful: bool = False
) -> OperatorSample:
    """Return a stage as an operator. The query's own counters take precedence over the tasks' figures."""
    read, written = stage.input_rows + stage.shuffle_read_rows, stage.shuffle_write_rows + stage.output_rows
    return OperatorSample(
        name=name,
        parallelism=max(1, stage.tasks),
        rows_in=int(read) if rows_in is None else rows_in,
        busy_s=stage.run_s,
        cpu_s=stage.cpu_s,
        communication_s=stage.fetch_wait_s + stage.write_s,
        execute_latency_s=stage.execute_latency_s,
        rows_out=int(written) if rows_out is None else rows_out,
        bytes_in=int(stage.shuffle_read_bytes),
        bytes_out=int(stage.shuffle_write_bytes),
        stateful=stateful,
        failed_tasks=stage.failed,
        rows_transferred=int(stage.shuffle_write_rows),
    )
