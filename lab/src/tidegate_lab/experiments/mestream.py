"""Me-Stream on Spark: WordCount as declared, one task per operator, then the same after self-adjustment, in one run.

The load is constant and the default can sustain it. Tidegate only observes while the default is measured. Then it may
act, and the query is measured again when Tidegate has nothing left to do. Executors, slots and load do not change. The
query has Spark's default trigger: a batch starts as soon as the last one has ended. Storm has no interval either.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.control.journal import Entry, read_entries
from tidegate.domain import BatchSample, EnvironmentUnfit, Mode
from tidegate.domain.policy import Policy
from tidegate.load import Constant, Timeline
from tidegate_lab.experiments.attached import check_alive, warm_up
from tidegate_lab.experiments.rowlatency import row_latencies, rows_committed
from tidegate_lab.workloads.wordcount import Counts, SplitCount, check_rows, expected_counts, state_counts

Floats = npt.NDArray[np.float64]
APPLICATION = "wordcount"
EXECUTORS, SLOTS = 2, 4
_SETTLED_LOOKS = 20
_LEVEL_BATCHES, _LEVEL = 4, 0.12


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run. A row of `cost_s` at `rate` a second keeps one task busy for the product of both."""

    rate: float = 155.0
    cost_s: float = 0.0055
    objective_s: float = 2.0
    settle_limit_s: float = 200.0
    measure_s: float = 60.0
    adjust_limit_s: float = 180.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Means over a stable stage."""

    execute_latency_ms: float
    process_latency_ms: float
    utilisation: float
    """Busy time of the busiest operator ÷ (time × its tasks)."""
    backlog_growth_rows_per_s: float


@dataclass(frozen=True)
class Run:
    """The whole run: batches, rows, and the spans of the two stages. Times count from the start of the load."""

    batches: tuple[BatchSample, ...]
    start_s: float
    arrivals_s: Floats
    latencies_s: Floats
    default_s: tuple[float, float]
    adjusted_s: tuple[float, float]
    pauses_s: tuple[float, ...]
    rebalanced_s: tuple[float, ...]
    rows_lost: int
    rows_doubled: int


Told = Callable[[str, float], None]
"""Reports the current activity and its length in seconds."""


def run(plan: Plan, out: Path, told: Told) -> Run:
    out.mkdir(parents=True, exist_ok=True)
    store = out / "mestream.db"
    for leftover in out.glob(f"{store.name}*"):
        leftover.unlink()
    told("starting Spark", 20)
    settings = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    spark = embedded_session("tidegate-mestream", EXECUTORS, EXECUTORS, SLOTS, settings=settings)
    try:
        settle_executors(spark, EXECUTORS)
        policy = Policy.model_validate(
            {
                "objective": {"latency_s": plan.objective_s},
                "executors": {"min": EXECUTORS, "max": EXECUTORS},
                "journal": {"path": str(store)},
            }
        )
        with (
            tempfile.TemporaryDirectory(prefix="tidegate-") as checkpoint,
            attach(spark, policy) as gate,
        ):
            _warm(gate)
            gate.runner.mode = Mode.OFF  # observe only while the default is measured
            start_ms = int(time.time() * 1000)
            start_s = start_ms / 1000
            job = SplitCount(
                load=Constant(rate=plan.rate),
                rows=None,
                start_ms=start_ms,
                lookup_s=plan.cost_s,
                source_tasks=3,
                lookup_tasks=1,
                count_tasks=1,
                trigger_s=0.0,
            )
            query = gate.start(APPLICATION, job.build, checkpoint=checkpoint)
            told("default: settling", plan.settle_limit_s)
            _settle(gate, plan.settle_limit_s)
            told("default: measuring", plan.measure_s)
            default_s = _stage(gate, plan.measure_s, start_s)
            gate.runner.mode = Mode.APPLY
            told("adjusting", plan.adjust_limit_s)
            _adjust(gate, plan.adjust_limit_s)
            told("adjusted: measuring", plan.measure_s)
            adjusted_s = _stage(gate, plan.measure_s, start_s)
            gate.runner.mode = Mode.OFF
            query.stop_at_boundary()
            end_s = time.time()
            gate.settle()
            counts = state_counts(spark, checkpoint)
    finally:
        spark.stop()
    return _record(plan, list(read_entries(store)), counts, _Spans((start_s, end_s), default_s, adjusted_s))


def figures(done: Run, stage: tuple[float, float]) -> Latencies:
    """Means over one stage: batches by their commit, rows by their arrival."""
    inside = [
        batch for batch in done.batches if stage[0] <= batch.committed_s - done.start_s <= stage[1] and batch.rows
    ]
    rows = (done.arrivals_s >= stage[0]) & (done.arrivals_s <= stage[1])
    span_s = inside[-1].committed_s - inside[0].committed_s
    busy: dict[str, float] = {}
    tasks: dict[str, int] = {}
    for batch in inside[1:]:
        for operator in batch.operators:
            busy[operator.name] = busy.get(operator.name, 0.0) + operator.busy_s
            tasks[operator.name] = min(operator.parallelism, EXECUTORS * SLOTS)
    waiting = [float(batch.backlog_rows or 0) for batch in inside]
    times_s = [batch.started_s for batch in inside]
    growth = float(np.polyfit(np.array(times_s) - times_s[0], waiting, 1)[0]) if len(inside) > 2 else 0.0
    return Latencies(
        execute_latency_ms=round(1e3 * float(np.mean([execute_s(batch) for batch in inside])), 1),
        process_latency_ms=round(1e3 * float(done.latencies_s[rows].mean()), 1),
        utilisation=round(max(busy[name] / (span_s * tasks[name]) for name in busy), 3),
        backlog_growth_rows_per_s=round(growth, 3),
    )


def execute_s(batch: BatchSample) -> float:
    """From the start of a batch's first task to the end of its last; the stages of this query follow one another."""
    return sum(operator.execute_latency_s or 0.0 for operator in batch.operators)


def to_json(done: Run) -> dict[str, object]:
    """What `tidegate reproduce mestream --json` prints."""
    default, adjusted = figures(done, done.default_s), figures(done, done.adjusted_s)
    return {
        "default": asdict(default),
        "adjusted": asdict(adjusted),
        "ratio": {
            "execute": round(default.execute_latency_ms / adjusted.execute_latency_ms, 2),
            "process": round(default.process_latency_ms / adjusted.process_latency_ms, 2),
        },
        "pause_s": [round(pause_s, 2) for pause_s in done.pauses_s],
        "reconfigurations": len(done.pauses_s),
        "rows_lost": done.rows_lost,
        "rows_doubled": done.rows_doubled,
    }


def _warm(gate: Gate) -> None:
    """Let every slot run some Python and some state before measuring."""
    tasks = EXECUTORS * SLOTS
    warm_up(gate, SplitCount(Constant(rate=50), lookup_s=0.0, source_tasks=tasks, lookup_tasks=tasks).build)


def _settle(gate: Gate, limit_s: float) -> None:
    """Wait until batch times are stable. The first, cold batch leaves a backlog."""
    deadline_s = time.time() + limit_s
    durations_s: list[float] = []
    seen = 0
    while time.time() < deadline_s:
        check_alive(gate)
        last = gate.runner.last
        if last is not None and last.observation is not None and gate.runner.steps != seen:
            seen = gate.runner.steps
            batches = [
                b for sample in last.observation.applications if sample.name == APPLICATION for b in sample.batches
            ]
            durations_s += [batch.duration_s for batch in batches if batch.rows]
            recent = durations_s[-_LEVEL_BATCHES:]
            if len(durations_s) > 2 * _LEVEL_BATCHES and max(recent) - min(recent) < _LEVEL * recent[-1]:
                return
        time.sleep(0.1)


def _stage(gate: Gate, seconds: float, start_s: float) -> tuple[float, float]:
    begin_s = time.time()
    _wait(gate, begin_s + seconds)
    return begin_s - start_s, time.time() - start_s


def _wait(gate: Gate, until_s: float) -> None:
    """Let the job run. A failed query ends the experiment immediately."""
    while time.time() < until_s:
        check_alive(gate)
        time.sleep(0.2)


def _adjust(gate: Gate, limit_s: float) -> None:
    """Wait for a rebalance, and then until the planner has had nothing to do for a while."""
    deadline_s, quiet, seen, rebalanced = time.time() + limit_s, 0, 0, False
    while quiet < _SETTLED_LOOKS:
        if time.time() > deadline_s:
            raise EnvironmentUnfit(f"the planner was still adjusting after {limit_s:.0f} s; see tidegate explain")
        check_alive(gate)
        rebalanced = rebalanced or gate.rebalancing
        last = gate.runner.last
        if last is not None and last.decision is not None and gate.runner.steps != seen:
            seen = gate.runner.steps
            trying = any(reason.code == "hold-trial" for reason in last.decision.reasons)
            busy = gate.rebalancing or bool(last.decision.actions) or trying or not rebalanced
            quiet = 0 if busy else quiet + 1
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class _Spans:
    """When the load was played, and when, since its start, each stage was measured."""

    whole_s: tuple[float, float]
    default_s: tuple[float, float]
    adjusted_s: tuple[float, float]


def _record(plan: Plan, entries: list[Entry], counts: Counts, spans: _Spans) -> Run:
    start_s, end_s = spans.whole_s
    timeline = Timeline(Constant(rate=plan.rate))
    arrivals_s = timeline.arrivals_s(0, timeline.rows_by(end_s - start_s))
    latencies_s, _ = row_latencies(entries, APPLICATION, arrivals_s, start_s, end_s)
    samples = [
        (entry.time_s, sample)
        for entry in entries
        for sample in (entry.observation.applications if entry.observation else ())
        if sample.name == APPLICATION
    ]
    reports = [(time_s, sample.rebalance) for time_s, sample in samples if sample.rebalance]
    check = check_rows(counts, expected_counts(rows_committed(entries, APPLICATION)))
    return Run(
        batches=tuple(batch for _, sample in samples for batch in sample.batches),
        start_s=start_s,
        arrivals_s=arrivals_s,
        latencies_s=latencies_s,
        default_s=spans.default_s,
        adjusted_s=spans.adjusted_s,
        pauses_s=tuple(report.pause_s for _, report in reports if report.done and report.pause_s is not None),
        rebalanced_s=tuple(time_s - start_s for time_s, _ in reports),
        rows_lost=check.rows_lost,
        rows_doubled=check.rows_doubled,
    )
