"""Reads Spark's event logs and files of progress reports: lines of JSON in any order, intact or damaged.

Supports plain, compressed, unfinished (`.inprogress`) and rolling (`eventlog_v2_*` folders) logs of Spark 3.x and 4.x.
Lines are read one by one and combined at the end, so their order does not matter. Memory is bounded by the stages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
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


class EventLog:
    """Collects lines and builds the metric tables at the end."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.application = "application"
        self._progress: dict[tuple[str, str, int], Progress] = {}
        self._idle = 0
        self._book = StageBook()
        self._executors: dict[str, tuple[float, float, int]] = {}  # id → from, until, slots
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
        stages = self._book.by_batch()
        if self._progress:
            found = self._query_tables(stages)
        elif stages:
            self.notes.add("no streaming progress in this log: each sample is a Spark job, without latency")
            found = [self._job_table(stages)]
        else:
            found = []
        if self._idle and not self._progress:
            self.notes.add(f"{self._idle} progress reports, all idle: no batch ran")
        return found

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
        _, until_s, _ = self._executors.get(name, (since_s, float("inf"), slots))
        self._executors[name] = (since_s, until_s, slots)

    def _executor_removed(self, event: dict[str, Any]) -> None:
        name, until_s = text(event.get("Executor ID")), seconds(event.get("Timestamp"))
        if name is None or until_s is None:
            raise ValueError("an executor has a name and an end")
        since_s, _, slots = self._executors.get(name, (0.0, until_s, 0))
        self._executors[name] = (since_s, until_s, slots)

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

    def _query_tables(self, stages: dict[tuple[str, int], list[StageTotals]]) -> list[MetricTable]:
        by_application: dict[str, list[Progress]] = {}
        for report in self._progress.values():
            by_application.setdefault(report.application, []).append(report)
        tables = []
        for application, reports in sorted(by_application.items()):
            reports.sort(key=lambda report: (report.started_s, report.batch_id))
            records, flatteners, seen_runs = [], dict[str, Flattener](), set[str]()
            for report in reports:
                ran = stages.get((report.query_id, report.batch_id), [])
                batch = _batch(report, ran, warming=report.run_id not in seen_runs)
                seen_runs.add(report.run_id)
                flattener = flatteners.setdefault(report.run_id, Flattener())
                metrics = flattener.metrics(batch, self._around(report.started_s))
                metrics |= report.metrics | (stage_metrics(ran) if ran else {})
                records.append(MetricRecord(batch.committed_s, batch.batch_id, metrics))
            tables.append(MetricTable.from_records(application, records))
        return tables

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
        alive = [slots for since_s, until_s, slots in self._executors.values() if since_s <= time_s < until_s]
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
