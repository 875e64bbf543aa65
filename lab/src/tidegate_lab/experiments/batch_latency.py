"""Complete latency over rows per batch × executors on Spark, maximum throughput, and congestion.

After the second paper's Table II and figures 5 – 11: WordCount, and workloads bound by CPU, memory or network. One
embedded cluster serves all cells. It starts with the most executors and only removes them, so all measured executors
are
warm. The first cell is measured again at the end; the difference is the drift.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.adapters.spark.gatefile import GateLimit
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.analysis.correlation import Correlations, correlate
from tidegate.analysis.prepare import prepare
from tidegate.control.journal import read_entries
from tidegate.domain import EnvironmentUnfit
from tidegate.load import Burst, Constant
from tidegate_lab.experiments import batch_latency_results as results
from tidegate_lab.experiments.batch_latency_plan import WORKLOADS, Plan
from tidegate_lab.experiments.batch_latency_results import Cell, CellWindow, RateWindow
from tidegate_lab.workloads.wordcount import WordCount

LOOKUP_S = 0.0002
"""WordCount's wait per row: at most 5000 rows per second and slot."""
FIXED_TASKS = 12
T = TypeVar("T")
_BACKLOG_ROWS_PER_S = 1e6
_TRICKLE_ROWS_PER_S, _TRICKLE_S = 20.0, 6.0
_LIMIT_S = 180.0
_STARTS, _TOO_SLOW = 3, "connect back"
_LEAST_PRESENT = 0.1  # row latencies are known only for the runs at a given rate

Told = Callable[[int, int, str], None]
"""Reports progress: steps done, total steps, current activity."""


@dataclass
class Course:
    """The run so far: where everything is in the journal."""

    plan: Plan
    store: Path
    told: Told
    cells: dict[tuple[str, str], list[CellWindow]] = field(default_factory=dict)
    """By workload and tasks (`per-slot`, `fixed`)."""
    rates: dict[str, list[RateWindow]] = field(default_factory=dict)
    again: CellWindow | None = None
    done: int = 0
    started: int = 0

    def say(self, what: str, steps: int = 0) -> None:
        self.done += steps
        self.told(self.done, self.plan.steps, what)

    def named(self, name: str) -> str:
        """Return a unique name for a start, so that its batches can be found."""
        self.started += 1
        return f"{name}-{self.started}"


@dataclass(frozen=True, slots=True)
class Started:
    """A running query and its settings."""

    query: RestartableQuery
    job: WordCount


def start_cluster(plan: Plan) -> SparkSession:
    """Start the cluster for all cells, with the largest number of executors that any of them needs."""
    most = max(plan.executors)
    settings = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    return embedded_session("tidegate-batch-latency", most, most, plan.slots, settings=settings)


def run(plan: Plan, out: Path, told: Told, spark: SparkSession | None = None) -> dict[str, Any]:
    """Measure everything and write the journal, the correlation table and the figures to `out`. Stops Spark."""
    from tidegate_lab.experiments import batch_latency_figures as figures

    out.mkdir(parents=True, exist_ok=True)
    store = out / "batch-latency.db"
    for leftover in out.glob(f"{store.name}*"):
        leftover.unlink()
    course = Course(plan, store, told)
    course.say("starting Spark")
    spark = spark or start_cluster(plan)
    try:
        measure(spark, course)
    finally:
        spark.stop()
    document, correlations = evaluate(course)
    document["files"] = [path.name for path in figures.draw_all(document, correlations, out)]
    return document


def measure(spark: SparkSession, course: Course) -> None:
    """All cells and rates on one cluster."""
    plan = course.plan
    sizes = sorted(plan.executors, reverse=True)
    settle_executors(spark, sizes[0])
    with attach(spark, {"mode": "off", "journal": {"path": str(course.store)}}) as gate:
        for workload in plan.workloads:
            course.say(f"{workload}: warming up")
            _warm(gate, course, workload, sizes[0])
        for executors in sizes:
            settle_executors(spark, executors)
            for workload in plan.workloads:
                _cells(gate, course, workload, "per-slot", executors)
                if workload == "wordcount" and plan.fixed_tasks:
                    _cells(gate, course, workload, "fixed", executors)
                if executors == plan.congestion_executors:
                    _congestion(gate, course, workload)
        settle_executors(spark, sizes[0])
        _again(gate, course, plan.workloads[0], sizes[0])
        gate.settle()
    if gate.failure is not None:
        raise EnvironmentUnfit(f"observation ended early: {gate.failure}")


def evaluate(course: Course) -> tuple[dict[str, Any], Correlations | None]:
    """The document of the whole run, and the correlations for the figures."""
    entries = list(read_entries(course.store))
    cells = {key: _known(results.cell_of(entries, w) for w in windows) for key, windows in course.cells.items()}
    rates = {name: _known(results.rate_of(entries, w) for w in windows) for name, windows in course.rates.items()}
    parts = {name: results.to_json(cells[name, "per-slot"], rates.get(name, [])) for name in course.plan.workloads}
    first = course.plan.workloads[0]
    document: dict[str, Any] = {**parts[first], "workload": first, "tasks": "per-slot"}
    document["workloads"] = {name: part for name, part in parts.items() if name != first}
    fixed = cells.get(("wordcount", "fixed"), [])
    document["fixed_tasks"] = results.to_json(fixed, []) if fixed else None
    again = results.cell_of(entries, course.again) if course.again else None
    document["drift"] = _drift(again, cells[first, "per-slot"])
    table = prepare(
        results.pooled_table(
            entries,
            {w.application for windows in course.cells.values() for w in windows},
            {w.application for windows in course.rates.values() for w in windows},
        ),
        least_present=_LEAST_PRESENT,
    ).table
    correlations = correlate(table) if len(table) > 4 and len(table.names) > 1 else None
    document["correlations"] = results.table_json(correlations) if correlations else None
    return document, correlations


def _drift(again: Cell | None, cells: Sequence[Cell]) -> dict[str, Any] | None:
    for cell in cells:
        if again and (cell.rows_per_batch, cell.executors) == (again.rows_per_batch, again.executors):
            return {
                "rows_per_batch": cell.rows_per_batch,
                "executors": cell.executors,
                "first_s": cell.latency_s,
                "again_s": again.latency_s,
            }
    return None


def _known(found: Iterator[T | None]) -> list[T]:
    return [each for each in found if each is not None]


def _job(plan: Plan, workload: str, executors: int, tasks: str = "per-slot") -> WordCount:
    """A workload with an unlimited backlog, with one task per slot or a fixed number of tasks on any pool."""
    count = FIXED_TASKS if tasks == "fixed" else executors * plan.slots
    return WORKLOADS[workload](
        Constant(rate=_BACKLOG_ROWS_PER_S),
        start_ms=int((time.time() - 60) * 1000),
        lookup_s=LOOKUP_S,
        source_tasks=executors * plan.slots,
        lookup_tasks=count,
        count_tasks=count,
        trigger_s=0.0,
        rows_per_trigger=min(plan.sizes(workload)),
    )


@contextlib.contextmanager
def _started(gate: Gate, course: Course, name: str, make: Callable[[], WordCount]) -> Iterator[Started]:
    """Run a query that has committed its first batch, and stop it at a batch boundary at the end.

    Spark gives the source's Python process ten seconds to connect. A busy machine may miss that, so the start is
    retried.
    """
    for attempt in range(_STARTS):
        job = make()
        query = gate.start(course.named(name), job.build)
        try:
            _await_batches(query, 1)
            break
        except EnvironmentUnfit as error:
            query.query.stop()
            gate.forget(query.name)
            if _TOO_SLOW not in str(error) or attempt == _STARTS - 1:
                raise
    try:
        yield Started(query, job)
        query.stop_at_boundary()
        gate.settle()
    finally:
        query.query.stop()
        gate.forget(query.name)


def _await_batches(query: RestartableQuery, count: int) -> None:
    """Wait until `count` more batches have been committed."""
    first = _last_batch(query)
    deadline_s = time.monotonic() + _LIMIT_S
    while _last_batch(query) < first + count:
        _check(query)
        if time.monotonic() > deadline_s:
            raise EnvironmentUnfit(f"{query.name}: {count} batches took more than {_LIMIT_S:.0f} s; use smaller ones")
        time.sleep(0.1)


def _last_batch(query: RestartableQuery) -> int:
    progress = query.query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _check(query: RestartableQuery) -> None:
    if (error := query.query.exception()) is not None:
        raise EnvironmentUnfit(f"{query.name}: the query failed: {str(error).splitlines()[0]}")


def _warm(gate: Gate, course: Course, workload: str, executors: int) -> None:
    """Let every executor load what the workload needs before measuring."""
    with _started(gate, course, f"warm-{workload}", lambda: _job(course.plan, workload, executors)) as started:
        _await_batches(started.query, course.plan.warm_batches)
        started.query.admit(GateLimit(course.plan.congestion_rows))
        _await_batches(started.query, 3)


def _cells(gate: Gate, course: Course, workload: str, tasks: str, executors: int) -> None:
    """Measure all sizes in one query; the admission limit changes between them."""
    plan = course.plan
    name = f"{workload}-{tasks}"
    with _started(gate, course, name, lambda: _job(plan, workload, executors, tasks)) as started:
        for rows in plan.sizes(workload, tasks):
            course.say(f"{workload}, {tasks}: {rows} rows on {executors} executors", steps=1)
            course.cells.setdefault((workload, tasks), []).append(_cell(started.query, plan, rows, executors))


def _cell(query: RestartableQuery, plan: Plan, rows: int, executors: int) -> CellWindow:
    from_s = time.time()
    query.admit(GateLimit(rows))
    _await_batches(query, plan.batches + 2)  # skip one batch of the previous size and the first of this one
    while time.time() < from_s + plan.cell_s:
        time.sleep(0.1)
    return CellWindow(query.name, rows, executors, from_s, time.time())


def _congestion(gate: Gate, course: Course, workload: str) -> None:
    """Measure rates up to overload, as shares of the throughput of full batches on the same number of executors."""
    plan, executors = course.plan, course.plan.congestion_executors
    gate.settle()
    entries = list(read_entries(course.store))
    sought = (plan.congestion_rows, executors)
    windows = [w for w in course.cells[workload, "per-slot"] if (w.rows_per_batch, w.executors) == sought]
    cell = results.cell_of(entries, windows[0])
    if cell is None:
        raise EnvironmentUnfit(f"{workload}: no full batches of {plan.congestion_rows} rows were seen")
    for share in plan.shares(workload):
        rate = share * cell.throughput_rows_per_s
        course.say(f"{workload}: {rate:.0f} rows a second on {executors} executors", steps=1)
        course.rates.setdefault(workload, []).append(_rate(gate, course, workload, rate))


def _rate(gate: Gate, course: Course, workload: str, rate: float) -> RateWindow:
    """Run one rate for a while. A low rate comes first, so that no cold batch leaves a backlog."""
    plan = course.plan
    load = Burst(_TRICKLE_ROWS_PER_S, rate, _TRICKLE_S, plan.rate_s)

    def make() -> WordCount:
        job = _job(plan, workload, plan.congestion_executors)
        return replace(job, load=load, start_ms=int(time.time() * 1000), rows_per_trigger=plan.congestion_rows)

    with _started(gate, course, f"{workload}-rate", make) as started:
        start_s = (started.job.start_ms or 0) / 1000
        until_s = start_s + _TRICKLE_S + plan.rate_s
        while time.time() < until_s:
            _check(started.query)
            time.sleep(0.1)
        return RateWindow(started.query.name, rate, load, start_s, start_s + _TRICKLE_S + plan.settle_s, until_s)


def _again(gate: Gate, course: Course, workload: str, executors: int) -> None:
    """Measure the first cell again, on new executors, to find the drift."""
    plan = course.plan
    course.say(f"{workload}: the first cell once more", steps=1)
    _warm(gate, course, workload, executors)
    with _started(gate, course, f"{workload}-again", lambda: _job(plan, workload, executors)) as started:
        course.again = _cell(started.query, plan, min(plan.sizes(workload)), executors)
