"""One run on Spark: a fresh cluster whose executors have a CPU quota each, one query, one controller; and its result.

Where control groups are not permitted, executors cannot get a CPU quota. The rows then wait for a look-up instead of
being hashed, so that more executors still add capacity.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from tidegate import extensions
from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executorquota import executor_quota
from tidegate.adapters.spark.executors import settle_executors
from tidegate.adapters.spark.warmup import offer_rehearsal
from tidegate.control.journal import Entry, read_entries
from tidegate.domain import Mode, Outcome, ScaleExecutors
from tidegate.load import Constant, LoadProfile, Timeline
from tidegate_lab.arena.judge import TIDEGATE
from tidegate_lab.arena.play import Change, Run, start_size
from tidegate_lab.arena.poolcourse import PoolCourse, dynamic_target
from tidegate_lab.arena.setting import APPLICATION
from tidegate_lab.arena.sparkplan import DYNAMIC, FLINK, Contestant, SparkPlan, rival_for
from tidegate_lab.experiments.attached import check_alive, warm_up
from tidegate_lab.experiments.rowlatency import row_latencies, rows_committed
from tidegate_lab.workloads.currency import Currency, check_output

_MEMORY_MB = 640
_TASKS = 12
"""Executors of one to four slots in all get equal numbers of tasks."""
_START_S = 3.0
"""Until the load begins, after the query was started."""
_LOOK_EVERY_S = 0.5
_PLUGGED = "arena-rival"
_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
}
Told = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a row costs: CPU, on executors with a quota, or time in a slot."""

    cpus: float | None
    """Quota of an executor."""
    rounds: int = 0
    """Of the hash."""
    lookup_s: float = 0.0

    def job(self, load: LoadProfile, output: str, trigger_s: float = 1.0) -> Currency:
        return Currency(load, output, rounds=self.rounds, lookup_s=self.lookup_s, tasks=_TASKS, trigger_s=trigger_s)


@dataclass(frozen=True)
class SparkGround:
    """Plays runs. Their journals stay in the folder."""

    plan: SparkPlan
    work: RowWork
    folder: Path

    def play(self, contestant: Contestant, told: Told) -> Run:
        setting, load = self.plan.setting, self.plan.load
        name, fixed = contestant.name, contestant.executors
        start = fixed or start_size(setting, load)
        store = self.folder / f"{name}.db"
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(f"{store.name}*"):
            leftover.unlink()
        mode = Mode.OFF if fixed is not None or name == DYNAMIC else Mode.APPLY
        policy = setting.policy(mode=mode, journal={"path": str(store)})
        profile = load.profile(setting.peak_rows_per_s)
        timeline = Timeline(profile)
        rows = timeline.rows_by(load.duration_s)
        told(0.0, "starting")
        most = fixed or setting.max_executors
        with (
            tempfile.TemporaryDirectory(prefix="tidegate-arena-") as files,
            cluster(self.work.cpus, start, most, dynamic=name == DYNAMIC) as spark,
            _plugged(name, load.compress) as (controller, settings),
            attach(spark, policy, controller=controller) as gate,
        ):
            gate.runner.mode = Mode.OFF
            # One task per executor: tasks that wait would make dynamic allocation add executors before the run.
            warm_up(gate, replace(self.work.job(Constant(rate=50), f"{files}/warm-up"), tasks=start).build)
            start_s = time.time() + _START_S
            job = replace(
                self.work.job(profile, f"{files}/output", setting.interval_s),
                rows=rows,
                start_ms=round(start_s * 1000),
            )
            query = gate.start(APPLICATION, job.build, f"{files}/checkpoint")
            time.sleep(max(0.0, start_s - time.time()))
            gate.runner.mode = mode
            course = _watched(gate, spark, start_s, self.end_s, told)
            gate.runner.mode = Mode.OFF
            told(1.0, "counting rows")
            query.stop_at_boundary()
            gate.settle()
            entries = list(read_entries(store))
            check = check_output(spark, job.output, rows_committed(entries, APPLICATION))
        arrivals_s = timeline.arrivals_s(0, rows)
        latencies_s, committed = row_latencies(entries, APPLICATION, arrivals_s, start_s, start_s + self.end_s)
        journal = course.changes if name == DYNAMIC else _changes(entries, start_s, self.end_s)
        return Run(
            rival=name,
            load=load.name,
            seed=load.seed,
            late=float((latencies_s > setting.objective_s).mean()),
            executor_seconds=round(course.executor_seconds, 1),
            p99_s=round(float(np.quantile(latencies_s, 0.99)), 3),
            changes=len(journal),
            duration_s=self.end_s,
            settings=settings,
            journal=journal,
            sizes=course.sizes,
            timeline=course.timeline(arrivals_s, latencies_s, committed),
            rows_lost=check.rows_lost,
            rows_doubled=check.rows_doubled,
        )

    @property
    def end_s(self) -> float:
        """One objective after the last arrival. A row that is unfinished then counts at its age."""
        return self.plan.load.duration_s + self.plan.setting.objective_s


@contextlib.contextmanager
def cluster(cpus: float | None, start: int, most: int, dynamic: bool = False) -> Iterator[SparkSession]:
    """A cluster of one-slot executors with a CPU quota each, if there is one."""
    allocation = {
        **_DYNAMIC,
        "spark.dynamicAllocation.initialExecutors": str(start),
        "spark.dynamicAllocation.maxExecutors": str(most),
    }  # said in every run: what an earlier session of this process has set would be the default
    if not dynamic:
        allocation = {"spark.dynamicAllocation.enabled": "false"}
    with contextlib.ExitStack() as stack:
        quota = stack.enter_context(executor_quota(cpus, most)).settings if cpus is not None else {}
        settings = {**allocation, **quota}
        spark = embedded_session("tidegate-arena", start, most, 1, _MEMORY_MB, settings)
        stack.callback(spark.stop)
        if not dynamic:
            settle_executors(spark, start)
        offer_rehearsal(spark, 1)  # whoever is in control
        yield spark


@contextlib.contextmanager
def _plugged(name: str, compress: float) -> Iterator[tuple[str | None, dict[str, float]]]:
    """Offer a rival as a controller of the product. Gives the controller's name and settings that are not defaults."""
    if name in {DYNAMIC, TIDEGATE} or name.startswith("static-"):
        yield None, {}
        return
    settings = {"all_times_divided_by": compress} if name == FLINK else {}
    extensions.register("controllers", _PLUGGED, lambda: rival_for(name, compress))
    try:
        yield _PLUGGED, settings
    finally:
        extensions.forget("controllers", _PLUGGED)


def _watched(gate: Gate, spark: SparkSession, start_s: float, end_s: float, told: Told) -> PoolCourse:
    """Follow the pool until the end. What goes wrong ends the run at once."""
    course = PoolCourse()
    while (now_s := time.time() - start_s) < end_s:
        check_alive(gate)
        last = gate.runner.last
        if last is not None and last.observation is not None:
            pool = last.observation.pool
            target = dynamic_target(spark)
            course.add(now_s, pool.registered, pool.requested if target is None else target)
            told(now_s / end_s, f"{now_s:.0f} of {end_s:.0f} s, {pool.registered} executors")
        time.sleep(_LOOK_EVERY_S)
    course.end_s = end_s
    return course


def _changes(entries: list[Entry], start_s: float, end_s: float) -> tuple[Change, ...]:
    """The requests of a controller that were carried out."""
    return tuple(
        Change(
            entry.time_s - start_s, answer.action.target, "; ".join(reason.text for reason in entry.decision.reasons)
        )
        for entry in entries
        if entry.receipt and entry.decision and 0 <= entry.time_s - start_s <= end_s
        for answer in entry.receipt.actions
        if answer.outcome in {Outcome.DONE, Outcome.UNDER_WAY} and isinstance(answer.action, ScaleExecutors)
        if any(action == answer.action for action in entry.decision.actions)
    )
