"""Reads Spark's event logs and files of progress reports: lines of JSON in any order, intact or damaged.

Supports plain, compressed, unfinished (`.inprogress`) and rolling (`eventlog_v2_*` folders) logs of Spark 3.x and 4.x.
Lines are read one by one and combined at the end, so their order does not matter. Memory is bounded by the stages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.domain import BatchSample
from tidegate.history.batchrecords import Flattener, Surroundings
from tidegate.history.compressed import MOST_LINE, read_lines
from tidegate.history.fields import seconds, section, text, whole
from tidegate.history.metrictable import MetricRecord, MetricTable
from tidegate.history.notes import Notes
from tidegate.history.progress import Progress, read_progress
from tidegate.history.stagebook import StageBook, StageTotals, operator_of, stage_metrics

_KIND = re.compile(r'^\s*\{\s*"Event"\s*:\s*"([^"\\]{1,200})"')
_PROGRESS = "QueryProgressEvent"
_QUIET = {  # known kinds that carry nothing of interest here
    *("SparkListenerTaskStart", "SparkListenerTaskGettingResult", "SparkListenerSpeculativeTaskSubmitted"),
    *("SparkListenerStageCompleted", "SparkListenerStageExecutorMetrics", "SparkListenerJobEnd"),
    *("SparkListenerEnvironmentUpdate", "SparkListenerResourceProfileAdded", "SparkListenerApplicationEnd"),
    *("SparkListenerBlockManagerAdded", "SparkListenerBlockManagerRemoved", "SparkListenerUnpersistRDD"),
    *("SparkListenerBlockUpdated", "SparkListenerExecutorMetricsUpdate", "SparkListenerMiscellaneousProcessAdded"),
    *("SparkListenerSQLExecutionStart", "SparkListenerSQLExecutionEnd", "SparkListenerDriverAccumUpdates"),
    *("SparkListenerSQLAdaptiveExecutionUpdate", "SparkListenerSQLAdaptiveSQLMetricUpdates"),
    *("SparkListenerExecutorBlacklistedForStage", "SparkListenerNodeBlacklistedForStage"),
    *("SparkListenerExecutorExcludedForStage", "SparkListenerNodeExcludedForStage"),
    *("QueryStartedEvent", "QueryIdleEvent", "QueryTerminatedEvent", "QueryTriggerStartEvent"),
}
_ROLLED = re.compile(r"^events_(\d+)_")


def rolled_files(folder: Path) -> list[Path]:
    """Return the event files of a rolling log in order. A compacted file replaces all files before it."""
    found: list[tuple[int, bool, Path]] = []
    for path in folder.iterdir():
        rolled = _ROLLED.match(path.name)
        if rolled and path.is_file():
            found.append((int(rolled.group(1)), ".compact" in path.name, path))
    compacted = max((number for number, compact, _ in found if compact), default=-1)
    kept = [entry for entry in found if entry[0] > compacted or (entry[0] == compacted and entry[1])]
    return [path for _, _, path in sorted(kept)]


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A committed batch of a streaming query: its report, the stages that it ran, and both as one sample."""

    report: Progress
    stages: list[StageTotals]
    sample: BatchSample


@dataclass(frozen=True, slots=True)
class ExecutorSpan:
    """The time during which an executor was registered; without an end, until the log ends."""

    since_s: float
    until_s: float
    slots: int


class EventLog:
    """Collects lines. At the end it builds metric tables, or returns batches and executors as they are."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.application = "application"
        self._progress: dict[tuple[str, str, int], Progress] = {}
        self._idle = 0
        self._book = StageBook()
        self._executors: dict[str, ExecutorSpan] = {}
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "SparkListenerLogStart": self._log_started,
            "SparkListenerApplicationStart": self._application_started,
            "SparkListenerExecutorAdded": self._executor_added,
            "SparkListenerExecutorRemoved": self._executor_removed,
            "SparkListenerJobStart": self._book.job_started,
            "SparkListenerStageSubmitted": self._book.stage_submitted,
            "SparkListenerTaskEnd": self._book.task_ended,
            _PROGRESS: self._progressed,
        }

    def read(self, path: Path) -> None:
        """Read every line of a file."""
        for line in read_lines(path, self.notes):
            self.take(line)

    def take(self, line: str) -> None:
        """Read one line. Lines that cannot be parsed are counted."""
        if not line.strip():
            return
        self.notes.lines += 1
        if len(line) > MOST_LINE:
            self.notes.unreadable_lines += 1
            return
        kind = _KIND.match(line)
        # Most lines of a log are irrelevant here, and parsing their JSON is most of the work.
        if kind and _short(kind.group(1)) not in self._handlers and line.rstrip().endswith("}"):
            self._leave_out(_short(kind.group(1)))
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self.notes.unreadable_lines += 1
            return
        if not isinstance(event, dict):
            self.notes.unreadable_lines += 1
            return
        self._dispatch(event)

    def _dispatch(self, event: dict[str, Any]) -> None:
        name = _short(text(event.get("Event")) or (_PROGRESS if "batchId" in event or "progress" in event else "?"))
        handler = self._handlers.get(name)
        if handler is None:
            self._leave_out(name)
            return
        try:
            handler(event)
        except (ValueError, OverflowError, OSError):  # impossible times raise any of these
            self.notes.malformed_events += 1

    def _leave_out(self, kind: str) -> None:
        if kind not in _QUIET:
            self.notes.unknown_events[kind[:80]] += 1

    def tables(self) -> list[MetricTable]:
        """Return one table per query or, if there are no queries, one table with a sample per job."""
        if self._progress:
            found = [self._query_table(name, batches) for name, batches in self.batches().items()]
        elif stages := self._book.by_batch():
            self.notes.add("no streaming progress in this log: each sample is a Spark job, without latency")
            found = [self._job_table(stages)]
        else:
            found = []
        if self._idle and not self._progress:
            self.notes.add(f"{self._idle} progress reports, all idle: no batch ran")
        return found

    def batches(self) -> dict[str, list[LoggedBatch]]:
        """Return the batches of every streaming query in the order in which they started."""
        stages, seen_runs = self._book.by_batch(), set[str]()
        found: dict[str, list[LoggedBatch]] = {}
        in_order = sorted(self._progress.values(), key=lambda one: (one.application, one.started_s, one.batch_id))
        for report in in_order:
            ran = stages.get((report.query_id, report.batch_id), [])
            sample = _batch(report, ran, warming=report.run_id not in seen_runs)
            seen_runs.add(report.run_id)
            found.setdefault(report.application, []).append(LoggedBatch(report, ran, sample))
        return found

    def executors(self) -> list[ExecutorSpan]:
        """Return the executors in the order in which they registered."""
        return sorted(self._executors.values(), key=lambda one: one.since_s)

    # events

    def _log_started(self, event: dict[str, Any]) -> None:
        self.notes.spark_version = text(event.get("Spark Version")) or self.notes.spark_version

    def _application_started(self, event: dict[str, Any]) -> None:
        self.application = text(event.get("App Name")) or self.application

    def _executor_added(self, event: dict[str, Any]) -> None:
        name, since_s = text(event.get("Executor ID")), seconds(event.get("Timestamp"))
        slots = whole(section(event.get("Executor Info")).get("Total Cores"))
        if name is None or since_s is None or slots is None:
            raise ValueError("an executor has a name, a start and cores")
        known = self._executors.get(name)
        self._executors[name] = ExecutorSpan(since_s, known.until_s if known else float("inf"), slots)

    def _executor_removed(self, event: dict[str, Any]) -> None:
        name, until_s = text(event.get("Executor ID")), seconds(event.get("Timestamp"))
        if name is None or until_s is None:
            raise ValueError("an executor has a name and an end")
        known = self._executors.get(name)
        self._executors[name] = ExecutorSpan(known.since_s if known else 0.0, until_s, known.slots if known else 0)

    def _progressed(self, event: dict[str, Any]) -> None:
        inner = event.get("progress", event)
        if isinstance(inner, str):
            try:
                inner = json.loads(inner)
            except RecursionError:
                raise ValueError("nested too deeply") from None
        report = read_progress(section(inner))
        if report.committed:
            self._progress[(report.query_id, report.run_id, report.batch_id)] = report
        else:
            self._idle += 1

    # combining

    def _query_table(self, application: str, batches: list[LoggedBatch]) -> MetricTable:
        records, flatteners = [], dict[str, Flattener]()
        for batch in batches:
            flattener = flatteners.setdefault(batch.report.run_id, Flattener())
            metrics = flattener.metrics(batch.sample, self._around(batch.sample.started_s))
            metrics |= batch.report.metrics | (stage_metrics(batch.stages) if batch.stages else {})
            records.append(MetricRecord(batch.sample.committed_s, batch.sample.batch_id, metrics))
        return MetricTable.from_records(application, records)

    def _job_table(self, stages: dict[tuple[str, int], list[StageTotals]]) -> MetricTable:
        starts, flattener, records = self._book.jobs(), Flattener(), []
        order = sorted(stages, key=lambda key: (starts.get(key, 0.0), key))
        for key in order:
            ran = stages[key]
            began_s = starts.get(key) or min((s.first_launch_s for s in ran if s.first_launch_s), default=0.0)
            ended_s = max((stage.last_finish_s for stage in ran if stage.last_finish_s), default=began_s)
            rows = int(sum(stage.input_rows for stage in ran))
            batch = BatchSample(
                batch_id=key[1],
                started_s=began_s,
                duration_s=max(0.0, ended_s - began_s),
                rows=rows,
                busy_s=sum(stage.run_s for stage in ran),
                overhead_s=None,
                backlog_rows=None,
                operators=tuple(operator_of(f"stage{n}", stage, None, None) for n, stage in enumerate(ran)),
            )
            metrics = flattener.metrics(batch, self._around(began_s)) | stage_metrics(ran)
            records.append(MetricRecord(batch.committed_s, batch.batch_id, metrics))
        return MetricTable.from_records(self.application, records)

    def _around(self, time_s: float) -> Surroundings:
        alive = [one.slots for one in self._executors.values() if one.since_s <= time_s < one.until_s]
        return Surroundings(slots=sum(alive), executors=len(alive)) if alive else Surroundings()


def _batch(report: Progress, stages: list[StageTotals], *, warming: bool) -> BatchSample:
    named = report.operators if len(report.operators) == len(stages) else ()
    # Counters are missing where state is kept. Without counters, state is kept in the last stage.
    keeps_state = report.state is not None
    operators = tuple(
        operator_of(named[n].name, stage, named[n].rows_in, named[n].rows_out, keeps_state and named[n].rows_in is None)
        if named
        else operator_of(f"stage{n}", stage, None, None, keeps_state and n == len(stages) - 1)
        for n, stage in enumerate(stages)
    )
    working_s = sum(stage.execute_latency_s or 0.0 for stage in stages) or report.add_batch_s
    return BatchSample(
        batch_id=report.batch_id,
        started_s=report.started_s,
        duration_s=report.duration_s,
        rows=report.rows,
        busy_s=sum(stage.run_s for stage in stages) if stages else None,
        overhead_s=None if working_s is None else max(0.0, report.duration_s - working_s),
        backlog_rows=report.backlog_rows,
        operators=operators,
        state_rows=report.state.rows if report.state else None,
        warming=warming,
    )


def _short(kind: str) -> str:
    """`org.apache…StreamingQueryListener$QueryProgressEvent` → `QueryProgressEvent`."""
    return re.split(r"[.$]", kind)[-1]


def event_files(path: Path) -> Iterator[list[Path]]:
    """Yield the logs below a path, each as its files in order."""
    if path.is_file():
        yield [path]
    elif any(_ROLLED.match(entry.name) for entry in path.iterdir()):
        yield rolled_files(path)
    else:
        for entry in sorted(path.iterdir()):
            if entry.is_dir():
                yield from event_files(entry)
            elif not entry.name.startswith((".", "_", "appstatus_")) and entry.stat().st_size:
                yield [entry]
