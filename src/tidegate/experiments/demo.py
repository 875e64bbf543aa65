"""The demonstration: one load, three ways to size the executors, and what each costs in lateness and resources.

WordCount with a look-up runs under a load that triples for a while: on the smallest pool that bears the base load
(`static-min`), on the smallest that keeps violations at or below 1 % (`static-peak`), and under Tidegate. Every run
sees the same rows, on warm processes, in one embedded cluster, and is watched in the same way.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from tidegate.control.entry import Entry
from tidegate.control.journal import read_entries
from tidegate.domain import Decision, EnvironmentUnfit, Mode, Observation, Outcome, ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.experiments.rowlatency import row_latencies, rows_committed
from tidegate.load import Burst, Constant, LoadProfile, Timeline
from tidegate.spark.attach import Gate, attach
from tidegate.spark.embedded import embedded_session
from tidegate.spark.pool import settle_executors
from tidegate.spark.queries import RestartableQuery
from tidegate.spark.settings import Settings
from tidegate.spark.source import TidegateSource
from tidegate.workloads.wordcount import Counts, WordCount, check_rows, expected_counts, state_counts

Floats = npt.NDArray[np.float64]
APPLICATION = "wordcount"
SLOTS = 2
MOST_EXECUTORS = 3
STATIC_SIZES: dict[str, int | None] = {"static-min": 1, "static-peak": 3, "tidegate": None}
"""Found by running every size, as `tidegate demo --find-static` does; docs/demo.md has the figures."""
ROWS_PER_EXECUTOR = 3000
"""The bound on a batch that every run starts with, per executor: about four seconds of work."""
_WARM_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What is run: the load, how long, and what is promised. Times count from the end of the warm-up."""

    load: Burst
    duration_s: float
    objective_s: float = 15.0
    warm_up_s: float = 15.0
    shrink_after_s: float = 12.0

    @property
    def end_s(self) -> float:
        """Rows that come last get the time of the objective; a row unfinished then is late for certain."""
        return self.duration_s + self.objective_s

    @property
    def played(self) -> LoadProfile:
        """The whole load: its base while executors warm up, then the plan's."""
        load = self.load
        return Burst(load.base, load.peak, self.warm_up_s + load.start_s, load.duration_s)

    def policy(self, mode: Mode, store: Path) -> Policy:
        return Policy.model_validate(
            {
                "mode": mode,
                "objective": {"latency_s": self.objective_s},
                "executors": {"min": 1, "max": MOST_EXECUTORS, "step_down": 2},
                "capacity": {"utilisation": 0.95, "shrink_margin": 0.05, "shrink_after_s": self.shrink_after_s},
                "guards": {"cool_down_up_s": 3, "cool_down_down_s": 6},
                "store": str(store),
            }
        )


FULL = DemoPlan(Burst(base=520, peak=1560, start_s=30, duration_s=62), duration_s=135)
QUICK = DemoPlan(Burst(base=520, peak=1560, start_s=3, duration_s=14), duration_s=26, warm_up_s=8, shrink_after_s=6)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run came to. Rows are counted by arrival."""

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
"""Told at every step of the controller: run, seconds since the warm-up ended, what was seen and decided."""


def start_cluster() -> SparkSession:
    """One cluster for all runs, with a warm driver; it can grow to the largest size that any of them may have."""
    settings = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    spark = embedded_session("tidegate-demo", 1, MOST_EXECUTORS, SLOTS, settings=settings)
    spark.dataSource.register(TidegateSource)
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        recipe = Settings("warm-up", gate=f"{folder}/gate.json", checkpoint=f"{folder}/checkpoint")
        query = RestartableQuery(spark, WordCount(Constant(rate=50)).build, recipe)
        deadline_s = time.monotonic() + _WARM_LIMIT_S
        while (query.query.lastProgress or {"batchId": 0})["batchId"] < 3:
            if time.monotonic() > deadline_s or query.query.exception() is not None:
                raise EnvironmentUnfit(f"the cluster does not get going: {query.query.exception() or 'too slow'}")
            time.sleep(0.2)
        query.stop_at_boundary()
    return spark


def run_once(spark: SparkSession, plan: DemoPlan, name: str, executors: int | None, out: Path, step: Step) -> RunRecord:
    """One run: settle the pool, play the load, stop at a batch boundary, count. Without a size Tidegate chooses it."""
    out.mkdir(parents=True, exist_ok=True)
    settle_executors(spark, executors or 1)
    store = out / f"{name}.db"
    for leftover in out.glob(f"{store.name}*"):
        leftover.unlink()
    timeline = Timeline(plan.played)
    rows = timeline.rows_by(plan.warm_up_s + plan.duration_s)
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as checkpoint:
        with attach(spark, plan.policy(Mode.OFF if executors else Mode.APPLY, store)) as gate:
            gate.runner.mode = Mode.OFF if executors else Mode.RECOMMEND  # it looks on while the executors warm up
            start_ms = int(time.time() * 1000)
            job = WordCount(plan.played, rows, start_ms, rows_per_trigger=(executors or 1) * ROWS_PER_EXECUTOR)
            query = gate.start(APPLICATION, job.build, checkpoint=checkpoint)
            measured_s = start_ms / 1000 + plan.warm_up_s
            _watch(gate, query, name, measured_s, 0.0, step)
            gate.runner.mode = gate.policy.mode
            _watch(gate, query, name, measured_s, plan.end_s, step)
            end_s = time.time()
            query.stop_at_boundary()
            gate.settle()
        if gate.failure is not None:
            raise EnvironmentUnfit(f"{name}: the control ended early: {gate.failure}")
        counts = state_counts(spark, checkpoint)
    first = timeline.rows_by(plan.warm_up_s)
    arrivals_s = timeline.arrivals_s(0, rows) - plan.warm_up_s
    return _record(plan, name, list(read_entries(store)), arrivals_s, first, measured_s, end_s, counts)


def _watch(gate: Gate, query: RestartableQuery, name: str, start_s: float, end_s: float, step: Step) -> None:
    """Show every step until the load has been played; a query that fails ends the run at once."""
    shown = 0
    while time.time() - start_s < end_s:
        if (error := query.query.exception()) is not None:
            raise EnvironmentUnfit(f"{name}: the query failed: {str(error).splitlines()[0]}")
        last = gate.runner.last
        if last is not None and last.observation is not None and gate.runner.steps != shown:
            shown = gate.runner.steps
            step(name, last.time_s - start_s, last.observation, last.decision)
        time.sleep(0.1)


def _record(
    plan: DemoPlan,
    name: str,
    entries: list[Entry],
    arrivals_s: Floats,
    first: int,
    start_s: float,
    end_s: float,
    counts: Counts,
) -> RunRecord:
    """Everything of a run that is shown; rows before `first` came during the warm-up and are not judged."""
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
