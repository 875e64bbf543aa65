"""Three service classes in one Spark session under a burst of the lowest: Spark's FIFO, its FAIR, and Tidegate.

Every run processes the same rows on one warm executor. FIFO is one first-in-first-out pool for all, as in Spark's
default scheduler. FAIR has one pool of equal weight per class. Tidegate has the same pools and changes their shares and
the queries' admission limits.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.restartablequery import Build, RestartableQuery
from tidegate.adapters.spark.schedulerpools import in_pool
from tidegate.control.journal import read_entries
from tidegate.domain import EnvironmentUnfit, Mode
from tidegate.load import Timeline
from tidegate_lab.experiments.qos_plan import (
    APPLICATIONS,
    CLASSES,
    OBJECTIVES_S,
    PLANS,
    QosApplication,
    QosPlan,
    policy,
    work_here,
)
from tidegate_lab.experiments.qos_topics import Topics
from tidegate_lab.experiments.rowlatency import Floats, row_latencies

RUNS: dict[str, Mode] = {"fifo": Mode.OFF, "fair": Mode.OFF, "tidegate": Mode.APPLY}
_SOURCE_LIMIT_S = 60.0
_LEAST_LEAD_S = 12.0
_ATTEMPTS = 3
"""A source's process must answer within ten seconds, which can fail on a busy machine."""

Told = Callable[[str, float], None]
"""Progress: which run, and seconds since its load began."""


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class in one phase; rows are counted by arrival, throughput by commit."""

    p50_s: float
    p99_s: float
    mean_s: float
    violation_rate: float
    throughput_share: float


@dataclass(frozen=True)
class ApplicationRows:
    """All rows of one application in one run, in seconds since the load began."""

    qos_class: str
    arrivals_s: Floats
    latencies_s: Floats
    committed: int

    @property
    def commits_s(self) -> Floats:
        return (self.arrivals_s + self.latencies_s)[: self.committed]


@dataclass(frozen=True)
class QosRun:
    """One complete run with one scheduling method."""

    name: str
    applications: tuple[ApplicationRows, ...]
    processors: dict[str, float]
    """CPUs used by driver and workers, by phase."""
    starting_s: float

    def figures(self, span_s: tuple[float, float]) -> dict[str, Any]:
        """What `--json` says about one phase of a run."""
        done = {name: self._committed(name, span_s) for name in CLASSES}
        total = sum(done.values())
        found: dict[str, Any] = {
            name: asdict(_class_figures(self.latencies(name, span_s), OBJECTIVES_S[name], done[name] / max(1, total)))
            for name in CLASSES
        }
        found["throughput_rows_per_s"] = round(total / (span_s[1] - span_s[0]), 1)
        return found

    def latencies(self, qos_class: str, span_s: tuple[float, float]) -> Floats:
        """Latencies of the class's rows that arrived in the phase."""
        parts = [
            rows.latencies_s[np.searchsorted(rows.arrivals_s, span_s[0]) : np.searchsorted(rows.arrivals_s, span_s[1])]
            for rows in self.applications
            if rows.qos_class == qos_class
        ]
        return np.concatenate(parts)

    def _committed(self, qos_class: str, span_s: tuple[float, float]) -> int:
        return sum(
            int(np.count_nonzero((rows.commits_s >= span_s[0]) & (rows.commits_s < span_s[1])))
            for rows in self.applications
            if rows.qos_class == qos_class
        )


def run_all(spark: SparkSession, plan: QosPlan, out: Path, told: Told, topics: Topics | None = None) -> list[QosRun]:
    """Warm up, then run everything in turn, from Kafka topics if given."""
    out.mkdir(parents=True, exist_ok=True)
    # Sources start one by one, each with a Python process; warm starts take no longer than cold ones did.
    course = _Course(spark, out, told, topics)
    plan = replace(plan, work=work_here(spark))
    warm_up = _run_once(course, PLANS["warm-up"], "fair", Mode.OFF, 0.0)
    lead_s = max(_LEAST_LEAD_S, 1.2 * warm_up.starting_s)
    return [_run_once(course, plan, name, mode, lead_s) for name, mode in RUNS.items()]


@dataclass(frozen=True, slots=True)
class _Course:
    """What all runs share."""

    spark: SparkSession
    out: Path
    told: Told
    topics: Topics | None


def _run_once(course: _Course, plan: QosPlan, name: str, mode: Mode, lead_s: float) -> QosRun:
    spark, out, topics = course.spark, course.out, course.topics
    store = out / f"{name}.db"
    for leftover in out.glob(f"{store.name}*"):
        leftover.unlink()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-qos-"))
        gate = stack.enter_context(attach(spark, policy(mode, store)))
        stack.callback(stop_queries, gate)
        read = topics.create(name) if topics is not None else {}
        began_s = time.time()
        start_s = began_s + lead_s
        if topics is not None:
            stack.enter_context(topics.fed(read, plan, start_s))
        pool = None if name == "fifo" else attrgetter("qos_class")
        start_queries(spark, gate, plan.recipes(APPLICATIONS, start_s, read), Path(folder), pool)
        starting_s = time.time() - began_s
        if lead_s and starting_s > lead_s:
            raise EnvironmentUnfit(f"{name}: nine queries took {starting_s:.0f} s to start; is the machine busy?")
        processors = _watch(plan, name, gate, start_s, course.told)
        end_s = time.time()
        gate.settle()
    if gate.failure is not None:
        raise EnvironmentUnfit(f"{name}: control ended early: {gate.failure}")
    return QosRun(name, read_rows(plan, store, start_s, end_s), processors, starting_s)


def _watch(plan: QosPlan, name: str, gate: Gate, start_s: float, told: Told) -> dict[str, float]:
    """Wait until the load has been played. Returns the CPU use of the run's processes in each phase."""
    processors = {}
    for phase, (begin_s, end_s) in plan.spans_s.items():
        used_s: float | None = None
        while (at_s := time.time() - start_s) < end_s:
            if used_s is None and at_s >= begin_s:
                used_s = cpu_seconds()
            _check(gate)
            told(name, at_s)
            time.sleep(0.5)
        processors[phase] = round((cpu_seconds() - (used_s or 0.0)) / (end_s - begin_s), 2)
    return processors


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children so far."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def start_queries(
    spark: SparkSession,
    gate: Gate,
    recipes: Mapping[QosApplication, Build],
    folder: Path,
    pool: Callable[[QosApplication], str] | None = None,
) -> None:
    """Start one query after another: Python sources that start at the same time can time out."""
    for application, recipe in recipes.items():
        for attempt in range(_ATTEMPTS):
            with in_pool(spark.sparkContext, pool(application) if pool else None):
                query = gate.start(application.name, recipe, checkpoint=folder / f"{application.name}-{attempt}")
            deadline_s = time.monotonic() + _SOURCE_LIMIT_S
            while not _asked_for_rows(query) and query.query.isActive and time.monotonic() < deadline_s:
                time.sleep(0.05)
            if _asked_for_rows(query):
                break
            query.query.stop()
    _check(gate)


def _asked_for_rows(query: RestartableQuery) -> bool:
    """Return whether its source has answered. A query on an empty topic waits for rows."""
    return query.gated or query.query.lastProgress is not None or query.query.status["message"].startswith("Waiting")


def stop_queries(gate: Gate) -> None:
    """Stop immediately, without finishing running batches."""
    for query in gate.queries():
        query.query.stop()


def read_rows(
    plan: QosPlan, store: Path, start_s: float, end_s: float, applications: Sequence[QosApplication] = APPLICATIONS
) -> tuple[ApplicationRows, ...]:
    """A run's rows as its journal tells them."""
    entries = list(read_entries(store))
    found = []
    for application in applications:
        arrivals_s = Timeline(plan.load(application.qos_class)).arrivals_s(0, plan.rows(application.qos_class))
        latencies_s, committed = row_latencies(entries, application.name, arrivals_s, start_s, end_s)
        found.append(ApplicationRows(application.qos_class, arrivals_s, latencies_s, committed))
    return tuple(found)


def to_json(plan: QosPlan, runs: list[QosRun]) -> dict[str, Any]:
    """The burst of every run, and the other phases under `phases`."""
    document: dict[str, Any] = {run.name: run.figures(plan.spans_s["burst"]) for run in runs}
    document["phases"] = {
        phase: {run.name: run.figures(span_s) for run in runs}
        for phase, span_s in plan.spans_s.items()
        if phase != "burst"
    }
    document["processors"] = {run.name: run.processors for run in runs}
    document["objectives_s"] = OBJECTIVES_S
    return document


def _class_figures(latencies_s: Floats, objective_s: float, share: float) -> ClassFigures:
    return ClassFigures(
        p50_s=round(float(np.quantile(latencies_s, 0.5)), 3),
        p99_s=round(float(np.quantile(latencies_s, 0.99)), 3),
        mean_s=round(float(np.mean(latencies_s)), 3),
        violation_rate=round(float(np.mean(latencies_s > objective_s)), 5),
        throughput_share=round(share, 4),
    )


def _check(gate: Gate) -> None:
    for query in gate.queries():
        if (error := query.query.exception()) is not None:
            raise EnvironmentUnfit(f"{query.name} failed: {str(error).splitlines()[0]}")
