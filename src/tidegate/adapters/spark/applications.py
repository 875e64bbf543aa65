"""Turns progress reports and stages into application samples: all queries of the context, each batch once."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.adapters.spark.kafka import KafkaWatch
from tidegate.adapters.spark.latency import counted_latency, sketched_latency
from tidegate.adapters.spark.limits import SourceLimits
from tidegate.adapters.spark.physicalplan import operators_of_plan
from tidegate.adapters.spark.stages import StagesByBatch
from tidegate.adapters.spark.watcher import ActiveQuery, Look, StageSample, Watcher
from tidegate.domain import ApplicationSample, BatchSample, LatencySample, MemorySample, OperatorSample, RunningBatch
from tidegate.history.offsets import rows_between
from tidegate.history.progress import OperatorCount, Progress, StateReport, parse_progress

logger = logging.getLogger("tidegate")

_STAGE_PATIENCE = 3  # observations that a report waits for its stages, because stage events arrive a little later
_INTERVAL = re.compile(r"ProcessingTimeTrigger\((\d+)\)")


@dataclass(slots=True)
class _Run:
    """One run of a query, from its start to its end."""

    name: str
    interval_s: float
    bounded: bool
    real_time: bool
    java: Any
    """The driver's own object; None for a run that had ended before it was first observed."""
    in_batch: bool = True
    last_progress_s: float | None = None
    first_batch: int | None = None
    plan_names: tuple[str, ...] | None = None
    stateful: frozenset[str] = frozenset()
    state: StateReport | None = None
    last_batch: int | None = None
    """The newest batch that has reported."""
    waiting: list[tuple[Progress, int]] = field(default_factory=list)
    running: bool = True
    error: str | None = None
    tasks: int = 0
    """Tasks announced by all jobs of a batch. In real-time mode all of them run at once."""
    planned: tuple[Any, float] | None = None
    """The end offsets of the running batch, and when they were first seen."""


@dataclass(frozen=True, slots=True)
class StatefulRun:
    """A run with state, and what is needed to locate the state."""

    name: str
    run_id: str
    java: Any
    operators: int
    partitions: int
    last_batch: int


class ApplicationBook:
    """All queries of a Spark context."""

    def __init__(self, watcher: Watcher, limits: SourceLimits, kafka: KafkaWatch) -> None:
        self._watcher = watcher
        self._limits = limits
        self._kafka = kafka
        self._stages = StagesByBatch()
        self._runs: dict[str, _Run] = {}
        self._stateful: dict[str, frozenset[str]] = {}
        """By application. Kept across restarts: a new run does not show its operators before its first batch."""

    def stateful_operators(self, application: str) -> frozenset[str]:
        return self._stateful.get(application, frozenset())

    def knows(self, application: str) -> bool:
        return any(run.name == application and run.running for run in self._runs.values())

    def stateful_runs(self) -> tuple[StatefulRun, ...]:
        """Running queries that keep state, from their first batch on."""
        return tuple(
            StatefulRun(run.name, run_id, run.java, run.state.operators, run.state.partitions, run.last_batch)
            for run_id, run in self._runs.items()
            if run.running and run.java is not None and run.last_batch is not None and run.state is not None
            if run.state.partitions is not None
        )

    def samples(self, look: Look) -> tuple[ApplicationSample, ...]:
        """What every query did since the last look. An ended query is returned once more, then forgotten."""
        active = {query.run_id: query for query in look.queries}
        for run_id, query in active.items():
            if run_id not in self._runs:
                run = self._runs[run_id] = _new_run(query, self._watcher.query(run_id))
                last = run.java.lastProgress() if run.java is not None else None
                if last is not None and not any(run_id in report for report in look.reports):
                    look.reports.append(str(last.json()))  # what it did before we listened
        self._take_in(look)
        self._kafka.take_in(look, {run_id: run.name for run_id, run in self._runs.items()})
        for run_id, run in self._runs.items():
            run.running = run.running and run_id in active  # its end may have been reported before we listened
            run.in_batch = run.running and active[run_id].in_batch
        self._stages.take_in(look)
        samples = one_per_name(self._sample(run_id, run, look) for run_id, run in self._runs.items())
        self._runs = {run_id: run for run_id, run in self._runs.items() if run.running or run.waiting}
        return samples

    def _take_in(self, look: Look) -> None:
        for text in look.reports:
            try:
                progress = parse_progress(text)
            except ValueError as error:
                logger.warning("a progress report was skipped: %s", error)
                continue
            # A query may start, report and end between two looks.
            run = self._runs.setdefault(progress.run_id, _unseen_run(progress))
            run.last_progress_s = progress.committed_s
            if progress.committed and (run.last_batch is None or progress.batch_id > run.last_batch):
                run.first_batch = progress.batch_id if run.first_batch is None else run.first_batch
                run.state, run.last_batch = progress.state or run.state, progress.batch_id
                run.waiting.append((progress, 0))
        now_s = time.time()
        for run_id in look.idle & self._runs.keys():
            self._runs[run_id].last_progress_s = now_s
        for end in look.ended:
            if end.run_id in self._runs:
                self._runs[end.run_id].running = False
                self._runs[end.run_id].error = end.error

    def _sample(self, run_id: str, run: _Run, look: Look) -> ApplicationSample:
        batches: list[BatchSample] = []
        still: list[tuple[Progress, int]] = []
        for progress, seen in run.waiting:
            key = (run_id, progress.batch_id)
            ready = self._stages.complete(key) or progress.rows == 0 or seen >= _STAGE_PATIENCE or not run.running
            if ready and not still:
                batches.append(_batch(run, progress, self._stages.take(key), self._latency(run_id, progress)))
                for offsets in progress.offsets:
                    self._limits.learn_files(run.name, run_id, offsets, progress.rows)
            else:
                still.append((progress, seen + 1))  # keeps the order of the batches
        run.waiting = still
        if run.stateful:
            self._stateful[run.name] = run.stateful
        if under_way := look.under_way.get(run_id):
            run.tasks = max(run.tasks, under_way.tasks_done + under_way.tasks_left)
        measured = all(batch.latency is not None for batch in batches if batch.rows)
        lags, partitions = self._kafka.lags(run_id)
        arrival = self._kafka.arrival(run_id)
        state = look.limits.get(run_id)
        in_force = self._limits.rows_in_force(run.name, state) if state is not None else None
        return ApplicationSample(
            name=run.name,
            batches=tuple(batches),
            last_progress_s=run.last_progress_s,
            interval_s=run.interval_s if state is None or state.interval_s is None else state.interval_s,
            running=run.running,
            in_batch=run.in_batch,
            bounded=run.bounded,
            held_slots=run.tasks if run.real_time else None,
            admission_rows=None if state is not None and state.paused else in_force,
            running_batch=_running_batch(
                run_id, run, look, in_force, arrival is not None and bool(arrival.waiting_rows)
            ),
            arrival=arrival,
            lags=lags,
            partitions=partitions,
            gated=state is not None and state.limitable,
            error=run.error,
            estimated=frozenset() if measured and not partitions else frozenset({"latency"}),
        )

    def _latency(self, run_id: str, progress: Progress) -> LatencySample | None:
        """From the query's observed event times if available, else from the arrival of its rows at the broker."""
        if progress.latency_sketch:
            return sketched_latency(progress.latency_sketch, progress.committed_s)
        if progress.latency_counts:
            return counted_latency(progress.latency_counts, progress.committed_s)
        return self._kafka.latency(run_id, progress.offsets, progress.committed_s)


def one_per_name(samples: Iterable[ApplicationSample]) -> tuple[ApplicationSample, ...]:
    """If a query ended and restarted between two looks, merge it: the newer run, with the batches of both."""
    found: dict[str, ApplicationSample] = {}
    for sample in samples:
        before = found.get(sample.name)
        if before is not None:
            newer = before if before.running and not sample.running else sample
            sample = replace(newer, batches=before.batches + sample.batches)
        found[sample.name] = sample
    return tuple(found.values())


def _running_batch(run_id: str, run: _Run, look: Look, limit: int | None, waiting: bool) -> RunningBatch | None:
    """The running batch: planned offsets that are not committed, and the tasks of the jobs started so far."""
    pairs = [pair for pair in look.offsets.get(run_id, []) if pair[1] is not None]
    planned = run.running and run.in_batch and any(before != after for before, after in pairs)
    under_way = look.under_way.get(run_id)
    reported = run.last_batch if run.last_batch is not None else -1
    if under_way is not None and (not run.running or under_way.batch_id <= reported):
        under_way = None
    if not planned and under_way is None:
        run.planned = None
        return None
    ends = [after for _, after in pairs]
    if run.planned is None or run.planned[0] != ends:
        run.planned = (ends, time.time())
    counts = [rows_between(before, after) for before, after in pairs]
    rows = sum(count or 0 for count in counts) if counts and None not in counts else None
    if rows is None and waiting:
        rows = limit  # the first batch has no start offset; it leaves rows behind, so it took the full limit
    replayed = run.first_batch is None and rows is not None and limit is not None and rows > limit
    if under_way is None:
        return RunningBatch(run.planned[1], rows, 0, 0, replayed=replayed)
    return RunningBatch(
        started_s=under_way.started_s,
        rows=rows,
        tasks_done=under_way.tasks_done,
        tasks_left=under_way.tasks_left,
        tasks_running=under_way.tasks_running,
        busy_s=under_way.busy_s,
        held_s=under_way.held_s,
        rows_read=under_way.rows_read,
        replayed=replayed,
    )


def _batch(run: _Run, progress: Progress, stages: list[StageSample], latency: LatencySample | None) -> BatchSample:
    working_s = sum(stage.execute_s or 0.0 for stage in stages)
    overhead_s = max(0.0, progress.duration_s - working_s) if stages else None
    driver = progress.driver
    if progress.add_batch_s is not None:
        if overhead_s is None:
            overhead_s = max(0.0, progress.duration_s - progress.add_batch_s)
        else:  # the part of addBatch outside tasks belongs to the sink
            driver = replace(driver, sink_s=max(0.0, progress.add_batch_s - working_s))
    return BatchSample(
        batch_id=progress.batch_id,
        started_s=progress.started_s,
        duration_s=progress.duration_s,
        rows=progress.rows,
        busy_s=sum(stage.busy_s for stage in stages) if stages else None,
        overhead_s=overhead_s,
        backlog_rows=progress.backlog_rows,
        latency=latency,
        operators=_operators(run, progress, stages),
        state_rows=progress.state.rows if progress.state else None,
        driver=driver,
        warming=progress.batch_id == run.first_batch,
        watermark_gap_s=progress.metrics.get("watermark_delay_s"),
        lag=progress.lag,
        dropped_rows=progress.dropped_rows,
        memory=_memory(stages),
    )


def _memory(stages: list[StageSample]) -> MemorySample | None:
    if not stages:
        return None
    return MemorySample(
        gc_s=sum(stage.gc_s for stage in stages),
        spilled_bytes=sum(stage.spilled_bytes for stage in stages),
        out_of_memory=sum(stage.out_of_memory for stage in stages),
        peak_bytes=max(stage.peak_bytes for stage in stages),
    )


def _operators(run: _Run, progress: Progress, stages: list[StageSample]) -> tuple[OperatorSample, ...]:
    """Stages in plan order correspond to operators in the order of their names."""
    counts = progress.operators
    if len(counts) > len(stages):
        stages = _unfused(counts, stages, progress.state)
    run.stateful = frozenset(count.name for count in counts if count.rows_in is None) or run.stateful
    stateful = run.stateful
    if len(counts) != len(stages):
        counts = tuple(OperatorCount(name, None, None) for name in _names_of(run, len(stages)))
        stateful = frozenset(count.name for count in counts[-1:])
    return tuple(_operator(count, stage, progress, stateful) for count, stage in zip(counts, stages, strict=True))


def _unfused(
    counts: tuple[OperatorCount, ...], stages: list[StageSample], state: StateReport | None
) -> list[StageSample]:
    """Separate operators that Spark runs in one stage.

    A single task in front of single-partition state needs no exchange, so Spark omits it. Spark reports the time that
    the state took; the rest belongs to the other operator.
    """
    if state is None or state.partitions != 1:
        return stages
    apart: list[StageSample] = []
    left = list(stages)
    for count in counts:
        keeps_state = count.rows_in is None
        if keeps_state and apart and apart[-1].tasks == 1 and len(left) < len(counts) - len(apart):
            apart[-1:] = apart[-1].parted(state.work_s)
        elif left:
            apart.append(left.pop(0))
    return apart if len(apart) == len(counts) and not left else stages


def _operator(count: OperatorCount, stage: StageSample, progress: Progress, stateful: frozenset[str]) -> OperatorSample:
    state = progress.state if count.name in stateful else None
    return OperatorSample(
        name=count.name,
        parallelism=max(1, stage.tasks),
        rows_in=stage.rows_in if count.rows_in is None else count.rows_in,
        busy_s=stage.busy_s,
        cpu_s=stage.cpu_s,
        communication_s=stage.fetch_wait_s + stage.write_s,
        execute_latency_s=stage.execute_s,
        rows_out=stage.rows_out if count.rows_out is None else count.rows_out,
        bytes_in=stage.bytes_in,
        bytes_out=stage.bytes_out,
        fetch_wait_s=stage.fetch_wait_s,
        longest_task_s=stage.longest_task_s,
        slowest_task=stage.slowest_task,
        stateful=state is not None,
        state_rows=state.rows if state else None,
        state_bytes=state.memory_bytes if state else None,
        state_commit_s=state.commit_s if state else None,
        executors=tuple(executor for _, executor in sorted(stage.executors.items())),
        failed_tasks=stage.failed,
        rows_transferred=stage.rows_transferred,
    )


def _names_of(run: _Run, stages: int) -> tuple[str, ...]:
    """Names from the plan if it has as many stages as ran, else numbers (an empty batch skips stages)."""
    names = _plan_names(run)
    return names if len(names) == stages else tuple(f"stage-{number + 1}" for number in range(stages))


def _plan_names(run: _Run) -> tuple[str, ...]:
    """Names from the physical plan, read once per run, because all batches have the same plan."""
    if run.plan_names is None:
        execution = run.java.lastExecution() if run.java is not None else None
        run.plan_names = operators_of_plan(execution.executedPlan().toString()) if execution is not None else ()
    return run.plan_names


def _new_run(query: ActiveQuery, java: Any) -> _Run:
    trigger = str(java.trigger().toString()) if java is not None else ""
    interval = _INTERVAL.search(trigger)
    return _Run(
        name=query.name or f"query-{query.query_id[:8]}",
        interval_s=int(interval.group(1)) / 1000 if interval else 0.0,
        bounded="AvailableNow" in trigger or "OneTime" in trigger,
        real_time="RealTime" in trigger,
        java=java,
    )


def _unseen_run(progress: Progress) -> _Run:
    """A run that had ended before it was first observed."""
    return _Run(
        name=progress.name or f"query-{progress.query_id[:8]}",
        interval_s=0.0,
        bounded=True,
        real_time=False,
        java=None,
        running=False,
    )
