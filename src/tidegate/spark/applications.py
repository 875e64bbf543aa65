"""Turns progress reports and stages into application samples: every query of the context, each batch once."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tidegate.domain import ApplicationSample, BatchSample, OperatorSample
from tidegate.spark.latency import latency_sample
from tidegate.spark.listener import ActiveQuery, ProgressFeed
from tidegate.spark.plan import operators_of_plan
from tidegate.spark.progress import OperatorCount, Progress, parse_progress
from tidegate.spark.stages import StageFollower, StageSample
from tidegate.spark.statusstore import StatusStore

logger = logging.getLogger("tidegate")

_STAGE_PATIENCE = 3  # observations that a report waits for its stages: the status store lags a little
_INTERVAL = re.compile(r"ProcessingTimeTrigger\((\d+)\)")


@dataclass(slots=True)
class _Run:
    """One run of a query, from its start to its end."""

    name: str
    interval_s: float
    bounded: bool
    query: ActiveQuery | None
    last_progress_s: float | None = None
    first_batch: int | None = None
    plan_names: tuple[str, ...] | None = None
    stateful: frozenset[str] = frozenset()
    waiting: list[tuple[Progress, int]] = field(default_factory=list)
    running: bool = True
    error: str | None = None


class ApplicationBook:
    """All queries of a Spark context."""

    def __init__(self, spark: SparkSession, store: StatusStore) -> None:
        self._feed = ProgressFeed(spark)
        self._stages = StageFollower(spark.sparkContext, store)
        self._runs: dict[str, _Run] = {}

    def between_batches(self) -> bool:
        """Is no query in the middle of a batch?"""
        return all(query.between_batches for query in self._feed.active())

    def active_queries(self) -> int:
        return len(self._feed.active())

    def stateful_operators(self, application: str) -> frozenset[str]:
        return next((run.stateful for run in self._runs.values() if run.name == application), frozenset())

    def samples(self) -> tuple[ApplicationSample, ...]:
        """What every query did since the last call. An ended query is shown once more, then forgotten."""
        active = self._feed.active()
        for query in active:
            self._runs.setdefault(query.run_id, _new_run(query))
        self._take_in()
        for run_id in self._runs.keys() - {query.run_id for query in active}:
            self._runs[run_id].running = False  # its end may have been told before anybody listened
        if any(run.waiting for run in self._runs.values()):  # stages are of interest once their batch has reported
            self._stages.read()
        samples = tuple(self._sample(run_id, run) for run_id, run in self._runs.items())
        self._runs = {run_id: run for run_id, run in self._runs.items() if run.running or run.waiting}
        return samples

    def close(self) -> None:
        self._feed.close()

    def _take_in(self) -> None:
        reports, ended, idle = self._feed.drain()
        for text in reports:
            try:
                progress = parse_progress(text)
            except ValueError as error:
                logger.warning("a progress report was left out: %s", error)
                continue
            # A query may start, report and end between two looks.
            run = self._runs.setdefault(progress.run_id, _unseen_run(progress))
            run.last_progress_s = progress.started_s + progress.duration_s
            if progress.committed:
                run.first_batch = progress.batch_id if run.first_batch is None else run.first_batch
                run.waiting.append((progress, 0))
        now_s = time.time()
        for run_id in idle & self._runs.keys():
            self._runs[run_id].last_progress_s = now_s
        for end in ended:
            if end.run_id in self._runs:
                self._runs[end.run_id].running = False
                self._runs[end.run_id].error = end.error

    def _sample(self, run_id: str, run: _Run) -> ApplicationSample:
        batches: list[BatchSample] = []
        still: list[tuple[Progress, int]] = []
        for progress, seen in run.waiting:
            key = (run_id, progress.batch_id)
            ready = self._stages.complete(key) or progress.rows == 0 or seen >= _STAGE_PATIENCE or not run.running
            if ready and not still:
                batches.append(_batch(run, progress, self._stages.take(key)))
            else:
                still.append((progress, seen + 1))  # order is kept: a batch never overtakes another
        run.waiting = still
        measured = all(batch.latency is not None for batch in batches if batch.rows)
        return ApplicationSample(
            name=run.name,
            batches=tuple(batches),
            last_progress_s=run.last_progress_s,
            interval_s=run.interval_s,
            running=run.running,
            in_batch=run.running and not (run.query is not None and run.query.between_batches),
            bounded=run.bounded,
            error=run.error,
            estimated=frozenset() if measured else frozenset({"latency"}),
        )


def _batch(run: _Run, progress: Progress, stages: list[StageSample]) -> BatchSample:
    working_s = sum(_execute_s(stage) or 0.0 for stage in stages)
    overhead_s = max(0.0, progress.duration_s - working_s) if stages else None
    if overhead_s is None and progress.add_batch_s is not None:
        overhead_s = max(0.0, progress.duration_s - progress.add_batch_s)
    committed_s = progress.started_s + progress.duration_s
    return BatchSample(
        batch_id=progress.batch_id,
        started_s=progress.started_s,
        duration_s=progress.duration_s,
        rows=progress.rows,
        busy_s=sum(stage.busy_s for stage in stages) if stages else None,
        overhead_s=overhead_s,
        backlog_rows=progress.backlog_rows,
        latency=latency_sample(progress.latency_sketch, committed_s) if progress.latency_sketch else None,
        operators=_operators(run, progress.operators, stages),
        state_rows=progress.state_rows,
        warming=progress.batch_id == run.first_batch,
    )


def _operators(run: _Run, counts: tuple[OperatorCount, ...], stages: list[StageSample]) -> tuple[OperatorSample, ...]:
    """Stages in plan order are the operators in the order in which they were named."""
    run.stateful = frozenset(count.name for count in counts if count.rows_in is None) or run.stateful
    if len(counts) != len(stages):
        counts = tuple(OperatorCount(name, None, None) for name in _names_of(run, len(stages)))
    return tuple(
        OperatorSample(
            name=count.name,
            parallelism=max(1, stage.tasks),
            rows_in=stage.rows_in if count.rows_in is None else count.rows_in,
            busy_s=stage.busy_s,
            cpu_s=stage.cpu_s,
            communication_s=stage.communication_s,
            execute_latency_s=_execute_s(stage),
            rows_out=stage.rows_out if count.rows_out is None else count.rows_out,
        )
        for count, stage in zip(counts, stages, strict=True)
    )


def _names_of(run: _Run, stages: int) -> tuple[str, ...]:
    """Names from the plan where it has as many stages as ran; numbers otherwise (an empty batch skips some)."""
    names = _plan_names(run)
    return names if len(names) == stages else tuple(f"stage-{number + 1}" for number in range(stages))


def _execute_s(stage: StageSample) -> float | None:
    if stage.launched_s is None or stage.completed_s is None:
        return None
    return max(0.0, stage.completed_s - stage.launched_s)


def _plan_names(run: _Run) -> tuple[str, ...]:
    """Names from the physical plan, read once a run: the plan is the same for every batch."""
    if run.plan_names is None:
        execution = run.query.java.lastExecution() if run.query is not None else None
        run.plan_names = operators_of_plan(execution.executedPlan().toString()) if execution is not None else ()
    return run.plan_names


def _new_run(query: ActiveQuery) -> _Run:
    trigger = str(query.java.trigger().toString())
    interval = _INTERVAL.search(trigger)
    return _Run(
        name=query.name or f"query-{query.query_id[:8]}",
        interval_s=int(interval.group(1)) / 1000 if interval else 0.0,
        bounded="AvailableNow" in trigger or "OneTime" in trigger,
        query=query,
    )


def _unseen_run(progress: Progress) -> _Run:
    """A run that was over before it was ever looked at."""
    return _Run(
        name=progress.name or f"query-{progress.query_id[:8]}", interval_s=0.0, bounded=True, query=None, running=False
    )
