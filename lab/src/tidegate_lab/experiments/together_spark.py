"""The scenario of `together` on Spark: the same jobs, loads and policy, on a cluster inside this machine.

A look-up waits, as a call to a service would, so more executors add capacity even with few CPUs. Every run has its own
cluster. Every row is checked in the state.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.control.journal import Entry, read_entries
from tidegate.domain import Mode
from tidegate.load import Constant, Timeline
from tidegate_lab.experiments.attached import check_alive, warm_up
from tidegate_lab.experiments.rowlatency import row_latencies, rows_committed
from tidegate_lab.experiments.together import Job, Played, Scenario, Setting
from tidegate_lab.workloads.wordcount import RowCheck, WordCount, check_rows, expected_counts, state_counts

_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_MEMORY_MB = 640
_COUNT_TASKS = 2
_START_S = 3.0
"""Until the load begins, after both queries were started."""


@dataclass(frozen=True, slots=True)
class SparkWorld:
    """Plays a run; its journal stays in the folder."""

    folder: Path

    def play(self, scenario: Scenario, setting: Setting) -> Played:
        self.folder.mkdir(parents=True, exist_ok=True)
        store = self.folder / f"{_name(setting)}.db"
        for leftover in self.folder.glob(f"{store.name}*"):
            leftover.unlink()
        most = setting.executors if setting.proposers == () else scenario.executors[1]
        spark = embedded_session(
            "tidegate-together", setting.executors, most, scenario.slots_per_executor, _MEMORY_MB, _SETTINGS
        )
        try:
            settle_executors(spark, setting.executors)
            mode = Mode.OFF if setting.proposers == () else Mode.APPLY
            policy = scenario.policy(mode=mode, journal={"path": str(store)})
            with (
                tempfile.TemporaryDirectory(prefix="tidegate-") as checkpoints,
                attach(spark, policy, proposers=setting.proposers or None) as gate,
            ):
                gate.runner.mode = Mode.OFF  # until the load begins; queries have their classes' pools from the start
                warm_up(gate, WordCount(Constant(rate=50), lookup_s=0.0, count_tasks=_COUNT_TASKS).build)
                start_s = time.time() + _START_S
                for job in scenario.jobs:
                    gate.start(job.name, _query(job, scenario, setting, start_s).build, Path(checkpoints) / job.name)
                gate.runner.mode = mode
                end_s = start_s + scenario.duration_s
                _wait(gate, end_s)
                gate.runner.mode = Mode.OFF
                for query in gate.queries():
                    query.stop_at_boundary()
                gate.settle()
                entries = list(read_entries(store))
                checks = [
                    check_rows(
                        state_counts(spark, str(Path(checkpoints) / job.name)),
                        expected_counts(rows_committed(entries, job.name)),
                    )
                    for job in scenario.jobs
                ]
        finally:
            spark.stop()
        return _played(scenario, entries, checks, start_s, end_s)


def _name(setting: Setting) -> str:
    asked = "all" if setting.proposers is None else "-".join(setting.proposers) or "none"
    return f"{asked}-{setting.executors}{'-by-hand' if setting.by_hand else ''}"


def _query(job: Job, scenario: Scenario, setting: Setting, start_s: float) -> WordCount:
    return WordCount(
        load=job.load,
        rows=Timeline(job.load).rows_by(scenario.duration_s),
        start_ms=round(start_s * 1000),
        lookup_s=job.row_s,
        source_tasks=1,
        lookup_tasks=scenario.by_hand if setting.by_hand else job.lookup_tasks,
        count_tasks=_COUNT_TASKS,
        trigger_s=scenario.interval_s,
    )


def _wait(gate: Gate, until_s: float) -> None:
    while time.time() < until_s:
        check_alive(gate)
        time.sleep(0.5)


def _played(
    scenario: Scenario, entries: Sequence[Entry], checks: Sequence[RowCheck], start_s: float, end_s: float
) -> Played:
    late, p99_s = {}, {}
    for job in scenario.jobs:
        timeline = Timeline(job.load)
        arrivals_s = timeline.arrivals_s(0, timeline.rows_by(scenario.duration_s))
        latencies_s, _ = row_latencies(entries, job.name, arrivals_s, start_s, end_s)
        late[job.qos_class] = round(float((latencies_s > job.latency_s).mean()), 5)
        p99_s[job.qos_class] = round(float(np.quantile(latencies_s, 0.99)), 3)
    seen = [entry.observation for entry in entries if entry.observation and start_s <= entry.time_s <= end_s]
    restarts = [
        sample.rebalance for observation in seen for sample in observation.applications if sample.rebalance is not None
    ]
    resized = sum(before.pool.requested != after.pool.requested for before, after in pairwise(seen))
    return Played(
        violation_rate=late,
        p99_s=p99_s,
        executor_seconds=round(
            sum(
                max(before.pool.registered, before.pool.requested) * (after.time_s - before.time_s)
                for before, after in pairwise(seen)
            ),
            1,
        ),
        reconfigurations=resized + len(restarts),
        pause_s=round(sum(report.pause_s or 0.0 for report in restarts), 1),
        rows_lost=sum(check.rows_lost for check in checks),
        rows_doubled=sum(check.rows_doubled for check in checks),
    )
