"""The demonstration: one load, three ways to size the pool, and their latency and cost.

WordCount with a look-up gets a short burst, which can wait in the queue, and then a peak that needs three times the
executors. It runs on the smallest pool that sustains the usual load (`static-min`), on the smallest that keeps
violations at or below 1 % (`static-peak`), and under Tidegate with the default policy. Every run processes the same
rows
on warm processes in one embedded cluster and is observed in the same way.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.source import TidegateSource
from tidegate.control.journal import Entry, read_entries
from tidegate.domain import Decision, EnvironmentUnfit, Mode, Observation, Outcome, ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.load import Burst, Constant, LoadProfile, Sum, Timeline
from tidegate_lab.experiments.rowlatency import row_latencies, rows_committed
from tidegate_lab.workloads.wordcount import Counts, WordCount, check_rows, expected_counts, state_counts

Floats = npt.NDArray[np.float64]
APPLICATION = "wordcount"
SLOTS = 2
MOST_EXECUTORS = 3
STATIC_SIZES: dict[str, int | None] = {"static-min": 1, "static-peak": 3, "tidegate": None}
"""Found by running every size, as `tidegate demo --find-static` does; docs/demo.md has the figures."""
LOOKUP_S = 0.005
ROWS_PER_EXECUTOR = 1600
"""Initial limit on a batch in every run, per executor: about four seconds of work."""
_WARM_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The load, its length and the objective. Times count from the end of the warm-up."""

    peak: Burst
    """With the usual load before and after it."""
    surprise: Burst
    """Rows on top of that."""
    duration_s: float
    objective_s: float = 30.0
    warm_up_s: float = 15.0

    @property
    def end_s(self) -> float:
        """One objective after the last arrival. A row that is unfinished then is over the objective."""
        return self.duration_s + self.objective_s

    @property
    def load(self) -> LoadProfile:
        return self._load(0.0)

    @property
    def played(self) -> LoadProfile:
        """The whole load: the usual one while executors warm up, then the plan's."""
        return self._load(self.warm_up_s)

    def _load(self, after_s: float) -> LoadProfile:
        bursts = (replace(burst, start_s=burst.start_s + after_s) for burst in (self.peak, self.surprise))
        return Sum(parts=tuple(bursts))

    def policy(self, mode: Mode, store: Path) -> Policy:
        return Policy.model_validate(
            {
                "mode": mode,
                "objective": {"latency_s": self.objective_s},
                "executors": {"min": 1, "max": MOST_EXECUTORS},
                "journal": {"path": str(store)},
            }
        )


FULL = DemoPlan(
    peak=Burst(base=180, peak=940, start_s=50, duration_s=80),
    surprise=Burst(base=0, peak=300, start_s=15, duration_s=8),
    duration_s=235,
)
QUICK = DemoPlan(
    peak=Burst(base=180, peak=940, start_s=5, duration_s=20),
    surprise=Burst(base=0, peak=0, start_s=0, duration_s=1),
    duration_s=35,
    warm_up_s=8,
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run. Rows are counted by arrival."""

    p50_s: float
    p99_s: float
    violation_rate: float
    executor_seconds: float
    rows_in: int
    rows_out: int
    rows_lost: int
    rows_doubled: int
    reconfigurations: int


@dataclass(frozen=True)
class RunRecord:
    """A run's result and its course over time, in seconds since the load began."""

    name: str
    result: RunResult
    arrivals_s: Floats
    latencies_s: Floats
    times_s: Floats
    executors: Floats
    backlog: Floats
    decisions: tuple[tuple[float, str, str], ...]
    """When, what, why."""


Step = Callable[[str, float, Observation, Decision | None], None]
"""Called at every controller step: run, seconds since the end of the warm-up, observation and decision."""


def start_cluster() -> SparkSession:
    """Start one cluster for all runs, with a warm driver, that can grow to the largest size that any run needs."""
    settings = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    spark = embedded_session("tidegate-demo", 1, MOST_EXECUTORS, SLOTS, settings=settings)
    spark.dataSource.register(TidegateSource)
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        recipe = Settings("warm-up", gate=f"{folder}/gate.json", checkpoint=f"{folder}/checkpoint")
        query = RestartableQuery(spark, WordCount(Constant(rate=50)).build, recipe)
        deadline_s = time.monotonic() + _WARM_LIMIT_S
        while (query.query.lastProgress or {"batchId": 0})["batchId"] < 3:
            if time.monotonic() > deadline_s or query.query.exception() is not None:
                raise EnvironmentUnfit(f"the cluster did not start processing: {query.query.exception() or 'too slow'}")
            time.sleep(0.2)
        query.stop_at_boundary()
    return spark


def run_once(spark: SparkSession, plan: DemoPlan, name: str, executors: int | None, out: Path, step: Step) -> RunRecord:
    """Run once: set the pool size, play the load, stop at a batch boundary, count. Without a size Tidegate chooses
    it."""
    out.mkdir(parents=True, exist_ok=True)
    settle_executors(spark, executors or 1)
    store = out / f"{name}.db"
    for leftover in out.glob(f"{store.name}*"):
        leftover.unlink()
    timeline = Timeline(plan.played)
    rows = timeline.rows_by(plan.warm_up_s + plan.duration_s)
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as checkpoint:
        policy = plan.policy(Mode.OFF if executors else Mode.APPLY, store)
        with attach(spark, policy) as gate:
            gate.runner.mode = Mode.OFF if executors else Mode.RECOMMEND  # observe only while the executors warm up
            start_ms = int(time.time() * 1000)
            limit = (executors or 1) * ROWS_PER_EXECUTOR
            job = WordCount(plan.played, rows, start_ms, LOOKUP_S, rows_per_trigger=limit)
            query = gate.start(APPLICATION, job.build, checkpoint=checkpoint)
            measured_s = start_ms / 1000 + plan.warm_up_s
            _watch(gate, query, name, measured_s, 0.0, step)
            gate.runner.mode = gate.policy.mode
            _watch(gate, query, name, measured_s, plan.end_s, step)
            end_s = time.time()
            query.stop_at_boundary()
            gate.settle()
        if gate.failure is not None:
            raise EnvironmentUnfit(f"{name}: control ended early: {gate.failure}")
        counts = state_counts(spark, checkpoint)
    arrivals_s = timeline.arrivals_s(0, rows) - plan.warm_up_s
    played = _Played(arrivals_s, timeline.rows_by(plan.warm_up_s), measured_s, end_s)
    return _record(plan, name, list(read_entries(store)), played, counts)


def _watch(gate: Gate, query: RestartableQuery, name: str, start_s: float, end_s: float, step: Step) -> None:
    """Show every step until the load has been played. A failed query ends the run immediately."""
    shown = 0
    while time.time() - start_s < end_s:
        if (error := query.query.exception()) is not None:
            raise EnvironmentUnfit(f"{name}: the query failed: {str(error).splitlines()[0]}")
        last = gate.runner.last
        if last is not None and last.observation is not None and gate.runner.steps != shown:
            shown = gate.runner.steps
            step(name, last.time_s - start_s, last.observation, last.decision)
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class _Played:
    """A load that was played: arrivals since the start, and the span of the run."""

    arrivals_s: Floats
    first: int
    """Rows before this one arrived during the warm-up and are not counted."""
    start_s: float
    end_s: float


def _record(plan: DemoPlan, name: str, entries: list[Entry], played: _Played, counts: Counts) -> RunRecord:
    """Return everything of a run that is shown."""
    arrivals_s, first, start_s, end_s = played.arrivals_s, played.first, played.start_s, played.end_s
    latencies_s, committed = row_latencies(entries, APPLICATION, arrivals_s, start_s, end_s)
    inside = [entry for entry in entries if start_s <= entry.time_s <= end_s]
    times_s = np.array([entry.time_s - start_s for entry in inside])
    pools = [entry.observation.pool for entry in inside if entry.observation]
    executors = np.array([max(pool.registered, pool.requested) for pool in pools], dtype=float)
    changes = [
        (entry.time_s - start_s, str(answer.action), str(entry.decision.reasons[0]))
        for entry in inside
        if entry.receipt and entry.decision
        for answer in entry.receipt.actions
        if answer.outcome in {Outcome.DONE, Outcome.UNDER_WAY} and isinstance(answer.action, ScaleExecutors)
        if answer.action in entry.decision.actions  # not once more at every step until it is reached
    ]
    check = check_rows(counts, expected_counts(rows_committed(entries, APPLICATION)))
    judged_s = latencies_s[first:]
    result = RunResult(
        p50_s=round(float(np.quantile(judged_s, 0.5)), 3),
        p99_s=round(float(np.quantile(judged_s, 0.99)), 3),
        violation_rate=round(float(np.mean(judged_s > plan.objective_s)), 5),
        executor_seconds=round(float(np.trapezoid(executors, times_s)), 1),
        rows_in=len(judged_s),
        rows_out=check.rows_out - first,
        rows_lost=check.rows_lost,
        rows_doubled=check.rows_doubled,
        reconfigurations=len(changes),
    )
    finished_s = np.sort((arrivals_s + latencies_s)[:committed])
    backlog = np.searchsorted(arrivals_s, times_s) - np.searchsorted(finished_s, times_s)
    return RunRecord(
        name, result, arrivals_s[first:], judged_s, times_s, executors, backlog.astype(np.float64), tuple(changes)
    )


def to_json(plan: DemoPlan, records: list[RunRecord]) -> dict[str, object]:
    """What `tidegate demo --json` prints."""
    return {"objective_s": plan.objective_s, "runs": {record.name: asdict(record.result) for record in records}}
