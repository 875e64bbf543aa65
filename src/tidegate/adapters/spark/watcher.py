"""Observes a live Spark context (queries, executors, reports and stages) in a single py4j call.

Object by object, an observation takes some forty calls to the JVM, which cost the driver more CPU than anything else
here. A small class inside the driver therefore collects everything. It adds up stages task by task as they end, without
REST, the UI, or copies from the status store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from tidegate.adapters.spark.janino import new_inside
from tidegate.domain import ExecutorSample
from tidegate.history.offsets import plain_offset


@dataclass(frozen=True, slots=True)
class ActiveQuery:
    """A running query."""

    query_id: str
    run_id: str
    name: str | None
    in_batch: bool


_BOUNDLESS = 2**60
_BYTES = "its own limit counts something else (maxBytesPerTrigger), which ours could exceed; it can be paused"

BatchKey = tuple[str, int]
"""Run id and batch id."""


@dataclass(frozen=True, slots=True)
class StageSample:
    """One finished stage of a batch."""

    stage_id: int
    tasks: int
    busy_s: float
    cpu_s: float
    fetch_wait_s: float
    write_s: float
    rows_in: int
    rows_out: int
    """Written to the shuffle or by the sink."""
    rows_transferred: int
    """Written to the shuffle."""
    bytes_in: int
    bytes_out: int
    launched_s: float | None
    completed_s: float | None
    longest_task_s: float | None
    slowest_task: int | None
    executors: dict[int, str]
    """The executor of each partition."""
    failed: int = 0
    """Attempts that failed and were repeated."""
    gc_s: float = 0.0
    """Slot-seconds in which tasks were stopped by the garbage collector."""
    spilled_bytes: int = 0
    out_of_memory: int = 0
    """Failed attempts that ran out of memory."""
    peak_bytes: int = 0
    """Largest execution memory of a task."""

    @property
    def execute_s(self) -> float | None:
        """From the launch of the first task to the end of the last."""
        if self.launched_s is None or self.completed_s is None:
            return None
        return max(0.0, self.completed_s - self.launched_s)

    def parted(self, last_s: float) -> tuple[StageSample, StageSample]:
        """Split the stage, the second part with `last_s` of its time. Input goes to the first, output to the second."""
        share = min(1.0, last_s / self.busy_s) if self.busy_s > 0 else 0.0
        edge_s = None if self.completed_s is None else self.completed_s - share * (self.execute_s or 0.0)
        last = replace(
            self,
            busy_s=share * self.busy_s,
            cpu_s=share * self.cpu_s,
            fetch_wait_s=0.0,
            rows_in=0,
            bytes_in=0,
            failed=0,
            gc_s=0.0,
            spilled_bytes=0,
            out_of_memory=0,
            launched_s=edge_s,
            longest_task_s=None,
        )
        first = replace(
            self,
            busy_s=self.busy_s - last.busy_s,
            cpu_s=self.cpu_s - last.cpu_s,
            write_s=0.0,
            rows_out=0,
            rows_transferred=0,
            bytes_out=0,
            completed_s=edge_s,
            longest_task_s=None,
        )
        return first, last


@dataclass(frozen=True, slots=True)
class Terminated:
    """A query that has ended, by itself or with an error."""

    run_id: str
    error: str | None


@dataclass(frozen=True, slots=True)
class BatchUnderWay:
    """A batch that has started a job and has not reported yet."""

    batch_id: int
    started_s: float
    tasks_done: int
    tasks_left: int
    """Started jobs announce all their tasks. Later jobs of the batch are not known yet."""
    tasks_running: int
    busy_s: float
    """Slot-seconds of finished tasks."""
    held_s: float
    """Slot-seconds that the running tasks have held so far."""
    rows_read: int


@dataclass(frozen=True, slots=True)
class LimitState:
    """What `Limiter.java` can do with a run, and what is in force."""

    kind: str
    """What its sources count: rows, files or mixed; `pause` if they can only be paused. Empty if they are not known yet
    or accept neither."""
    rows: int | None
    files: int | None
    paused: bool
    interval_s: float | None
    sources: tuple[str, ...]
    """Classes of its sources."""
    refusal: str

    @property
    def limitable(self) -> bool:
        return self.kind not in ("", "pause")

    @property
    def objection(self) -> str:
        """Why it cannot be limited; empty if it can, or if that is not known yet."""
        return _BYTES if self.kind == "pause" else self.refusal


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """End offsets of the topics of a run's source at some time, by topic and partition."""

    run_id: str
    source: int
    """Its place among the sources of the run, as in the run's progress reports."""
    time_s: float
    retention_s: dict[str, float]
    """By topic, if limited."""
    offsets: dict[str, dict[str, int]]
    looked_up: bool
    """From the records' timestamps, for a time before we started to observe."""


@dataclass(slots=True)
class Look:
    """The current state, and what was reported since the last look."""

    queries: list[ActiveQuery] = field(default_factory=list)
    executors: list[ExecutorSample] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    """Progress reports, as JSON."""
    idle: set[str] = field(default_factory=set)
    ended: list[Terminated] = field(default_factory=list)
    begun: list[tuple[BatchKey, int]] = field(default_factory=list)
    """Submitted stages."""
    done: list[tuple[BatchKey, int, StageSample | None]] = field(default_factory=list)
    """Completed stages; None for a failed one."""
    under_way: dict[str, BatchUnderWay] = field(default_factory=dict)
    """By run id."""
    offsets: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    """By run id: for each source, the committed offsets and those at which the newest batch ends.

    In the order of the sources in progress reports; None where there are none yet.
    """
    limits: dict[str, LimitState] = field(default_factory=dict)
    ends: list[TopicEnds] = field(default_factory=list)
    """Oldest first; those from timestamps before those that were observed."""
    unreachable: dict[str, str] = field(default_factory=dict)
    """Runs whose brokers did not answer, with the error."""


class Watcher:
    """The Python side of `Watcher.java`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def start(self) -> None:
        """Listen to every query and stage from now on."""
        self._java.start()
        self._java.listenTo(self._spark._jsparkSession)

    def stop(self) -> None:
        self._java.stop()

    def look(self) -> Look:
        return read_look(str(self._java.look()))

    def executors(self) -> tuple[ExecutorSample, ...]:
        """The executors that are registered now, oldest first."""
        return tuple(read_look(str(self._java.executors())).executors)

    def between_batches(self) -> bool:
        """Is no query of the context in the middle of a batch?"""
        return bool(self._java.betweenBatches())

    def query(self, run_id: str) -> Any:
        """The driver's own object for a run, or None if it has ended."""
        return self._java.query(run_id)

    def include(self, lines: Any) -> None:
        """Include the lines of a Java object (a `Supplier`) in every look."""
        self._java.include(lines)

    def when_starting(self, told: Any) -> None:
        """Notify a Java object (a `Consumer`) of every starting query, before its first batch is planned."""
        self._java.whenStarting(told)

    @cached_property
    def _java(self) -> Any:
        context = self._spark.sparkContext
        return new_inside(context._gateway, "Watcher", context._jsc.sc(), self._spark._jsparkSession.sharedState())


def read_look(text: str) -> Look:
    """Parse the lines of an answer. Each starts with a letter for its kind.

    >>> look = read_look("Q\\tid\\trun\\t1\\twords\\nX\\t0\\thost:1\\t2\\t1\\t5000\\nI\\trun\\n")
    >>> look.queries[0].name, look.executors[0].slots, look.idle
    ('words', 2, {'run'})
    >>> line = "S run 7 3 1 2 40 1 1000 1050 70 60000000 5 0 100 0 90 0 800 700 1 7 0 1 64 0:a,1:b".replace(" ", "\\t")
    >>> (key, _, stage), = read_look(line).done
    >>> key, stage.tasks, stage.failed, stage.executors
    (('run', 7), 2, 1, {0: 'a', 1: 'b'})
    >>> seen = read_look("R\\trun\\t7\\t1000\\t3\\t5\\t2\\t900\\t400\\t70\\nO\\trun\\tnot json\\t{}\\n")
    >>> seen.under_way["run"].tasks_left, seen.offsets
    (5, {'run': [(None, {})]})
    >>> read_look("L\\trun\\trows\\t200\\t-1\\t0\\t1000\\tKafkaMicroBatchStream\\t\\n").limits["run"].rows
    200
    >>> seen = read_look('K\\trun\\t1\\t5000\\t{"t":7200000}\\t{"t":{"0":3}}\\n').ends[0]
    >>> seen.source, seen.time_s, seen.retention_s, seen.offsets
    (1, 5.0, {'t': 7200.0}, {'t': {'0': 3}})
    """
    look = Look()
    for line in text.split("\n"):
        kind, _, rest = line.partition("\t")
        if kind == "Q":
            query_id, run_id, active, name = rest.split("\t")
            look.queries.append(ActiveQuery(query_id, run_id, name or None, active == "1"))
        elif kind == "X":
            look.executors.append(_executor(rest.split("\t")))
        elif kind == "P":
            look.reports.append(rest)
        elif kind == "I":
            look.idle.add(rest)
        elif kind == "E":
            run_id, error = rest.split("\t")
            look.ended.append(Terminated(run_id, error or None))
        elif kind == "B":
            run_id, batch, stage = rest.split("\t")
            look.begun.append(((run_id, int(batch)), int(stage)))
        elif kind == "S":
            look.done.append(_stage(rest.split("\t")))
        elif kind == "R":
            run_id, *fields = rest.split("\t")
            look.under_way[run_id] = _under_way(fields)
        elif kind == "O":
            run_id, before, after = rest.split("\t")
            look.offsets.setdefault(run_id, []).append((plain_offset(before), plain_offset(after)))
        elif kind == "L":
            run_id, *fields = rest.split("\t")
            look.limits[run_id] = _limit(fields)
        elif kind in ("K", "H"):
            look.ends.append(_ends(rest.split("\t"), looked_up=kind == "H"))
        elif kind == "F":
            run_id, text = rest.split("\t")
            look.unreachable[run_id] = text
    look.executors.sort(key=lambda executor: (executor.since_s, executor.id.zfill(12)))
    return look


def _under_way(fields: list[str]) -> BatchUnderWay:
    batch, started_ms, done, left, running, busy_ms, held_ms, rows = map(int, fields)
    return BatchUnderWay(batch, started_ms / 1e3, done, left, running, busy_ms / 1e3, held_ms / 1e3, rows)


def _limit(fields: list[str]) -> LimitState:
    kind, rows, files, paused, interval_ms, sources, refusal = fields
    return LimitState(
        kind=kind,
        rows=_most(rows),
        files=_most(files),
        paused=paused == "1",
        interval_s=int(interval_ms) / 1e3 if int(interval_ms) >= 0 else None,
        sources=tuple(name for name in sources.split(",") if name),
        refusal=refusal,
    )


def _ends(fields: list[str], looked_up: bool) -> TopicEnds:
    run_id, source, time_ms, kept_ms, offsets = fields
    kept_s = {topic: millis / 1e3 for topic, millis in json.loads(kept_ms).items()}
    return TopicEnds(run_id, int(source), int(time_ms) / 1e3, kept_s, json.loads(offsets), looked_up)


def _most(text: str) -> int | None:
    """A limit. Our own source reports a huge one if it has none."""
    return int(text) if 0 <= int(text) < _BOUNDLESS else None


def _executor(fields: list[str]) -> ExecutorSample:
    executor_id, host_port, cores, active, added_ms = fields
    return ExecutorSample(
        id=executor_id,
        host=host_port.rsplit(":", 1)[0],
        slots=max(1, int(cores)),
        active_tasks=int(active),
        since_s=int(added_ms) / 1e3,
    )


def _stage(fields: list[str]) -> tuple[BatchKey, int, StageSample | None]:
    run_id, batch, stage, succeeded, tasks, longest_ms, longest, launched_ms, completed_ms, *counts, where = fields
    run_ms, cpu_ns, fetch_ms, write_ns, read, fetched, shuffled, written, bytes_in, bytes_out, *rest = map(int, counts)
    failed, gc_ms, spilled, out_of_memory, peak = rest
    key, stage_id = (run_id, int(batch)), int(stage)
    if succeeded != "1":
        return key, stage_id, None
    placed = (pair.split(":", 1) for pair in where.split(",") if pair)
    return (
        key,
        stage_id,
        StageSample(
            stage_id=stage_id,
            tasks=int(tasks),
            busy_s=run_ms / 1e3,
            cpu_s=cpu_ns / 1e9,
            fetch_wait_s=fetch_ms / 1e3,
            write_s=write_ns / 1e9,
            rows_in=read + fetched,
            rows_out=shuffled + written,
            rows_transferred=shuffled,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            launched_s=int(launched_ms) / 1e3 if launched_ms else None,
            completed_s=int(completed_ms) / 1e3 if completed_ms else None,
            longest_task_s=int(longest_ms) / 1e3 if int(longest_ms) >= 0 else None,
            slowest_task=int(longest) if int(longest) >= 0 else None,
            executors={int(partition): executor for partition, executor in placed},
            failed=failed,
            gc_s=gc_ms / 1e3,
            spilled_bytes=spilled,
            out_of_memory=out_of_memory,
            peak_bytes=peak,
        ),
    )
