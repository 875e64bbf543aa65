"""One look at a live Spark context: queries, executors, reports and stages, in a single call across the bridge.

Asked object by object, a look takes some forty calls to the JVM, and their answers cost the driver more CPU than
anything else here. So the looking is done by a small class inside the driver, compiled once by Janino, the compiler
that every Spark ships for its own generated code. Stages are added up task by task as they end, without REST, without
the UI, and without the status store's copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.domain import ExecutorSample

_SOURCE = Path(__file__).with_name("Watcher.java")


@dataclass(frozen=True, slots=True)
class ActiveQuery:
    """A running query."""

    query_id: str
    run_id: str
    name: str | None
    in_batch: bool


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
    bytes_in: int
    bytes_out: int
    launched_s: float | None
    completed_s: float | None
    longest_task_s: float | None
    slowest_task: int | None
    executors: dict[int, str]
    """Which executor ran each partition."""

    @property
    def execute_s(self) -> float | None:
        """From the first task's launch to the last one's end."""
        if self.launched_s is None or self.completed_s is None:
            return None
        return max(0.0, self.completed_s - self.launched_s)

    def parted(self, last_s: float) -> tuple[StageSample, StageSample]:
        """The stage in two, the second with `last_s` of its time: rows and bytes in belong to the first, out to it."""
        share = min(1.0, last_s / self.busy_s) if self.busy_s > 0 else 0.0
        edge_s = None if self.completed_s is None else self.completed_s - share * (self.execute_s or 0.0)
        last = replace(
            self,
            busy_s=share * self.busy_s,
            cpu_s=share * self.cpu_s,
            fetch_wait_s=0.0,
            rows_in=0,
            bytes_in=0,
            launched_s=edge_s,
            longest_task_s=None,
        )
        first = replace(
            self,
            busy_s=self.busy_s - last.busy_s,
            cpu_s=self.cpu_s - last.cpu_s,
            write_s=0.0,
            rows_out=0,
            bytes_out=0,
            completed_s=edge_s,
            longest_task_s=None,
        )
        return first, last


@dataclass(frozen=True, slots=True)
class Terminated:
    """A query has ended, by itself or with an error."""

    run_id: str
    error: str | None


@dataclass(slots=True)
class Look:
    """What is so now, and what was reported since the last look."""

    queries: list[ActiveQuery] = field(default_factory=list)
    executors: list[ExecutorSample] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    """Progress reports, as JSON."""
    idle: set[str] = field(default_factory=set)
    ended: list[Terminated] = field(default_factory=list)
    begun: list[tuple[BatchKey, int]] = field(default_factory=list)
    """Stages that were submitted."""
    done: list[tuple[BatchKey, int, StageSample | None]] = field(default_factory=list)
    """Stages that are over; None for one that failed."""


class Watcher:
    """The Python side of `Watcher.java`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def start(self) -> None:
        """Hear every query and stage from now on."""
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
        """The driver's own object for a run, or None where it is over."""
        return self._java.query(run_id)

    @cached_property
    def _java(self) -> Any:
        context: SparkContext = self._spark.sparkContext
        gateway: Any = context._gateway
        arguments = gateway.new_array(gateway.jvm.java.lang.Object, 2)
        arguments[0], arguments[1] = context._jsc.sc(), self._spark._jsparkSession.sharedState()
        return _compiled(gateway).getConstructors()[0].newInstance(arguments)


_classes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def _compiled(gateway: Any) -> Any:
    """The class in the driver, compiled once: py4j remembers methods by class name and would mix up a second one."""
    if gateway not in _classes:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE.read_text())
        _classes[gateway] = compiler.getClassLoader().loadClass("tidegate.Watcher")
    return _classes[gateway]


def read_look(text: str) -> Look:
    """Read the lines of an answer; each begins with a letter for its kind.

    >>> look = read_look("Q\\tid\\trun\\t1\\twords\\nX\\t0\\thost:1\\t2\\t1\\t5000\\nI\\trun\\n")
    >>> look.queries[0].name, look.executors[0].slots, look.idle
    ('words', 2, {'run'})
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
    look.executors.sort(key=lambda executor: (executor.since_s, executor.id.zfill(12)))
    return look


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
    run_ms, cpu_ns, fetch_ms, write_ns, read, fetched, shuffled, written, bytes_in, bytes_out = map(int, counts)
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
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            launched_s=int(launched_ms) / 1e3 if launched_ms else None,
            completed_s=int(completed_ms) / 1e3 if completed_ms else None,
            longest_task_s=int(longest_ms) / 1e3 if int(longest_ms) >= 0 else None,
            slowest_task=int(longest) if int(longest) >= 0 else None,
            executors={int(partition): executor for partition, executor in placed},
        ),
    )
