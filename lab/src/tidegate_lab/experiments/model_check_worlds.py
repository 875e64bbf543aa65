"""Where the configurations of `model-check` are run: in the simulated world, and on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.domain import EnvironmentUnfit, Observation
from tidegate.load import Constant, Timeline
from tidegate_lab.experiments.model_check import DURATION_S, ROW_S, SLOTS

if TYPE_CHECKING:
    from tidegate.adapters.spark.attach import Gate
    from tidegate.adapters.spark.restartablequery import RestartableQuery

_DRAINS_S = 40.0
"""Maximum time until the last rows are done."""
_WARM_S = 8.0
"""From the start of a query to the start of its load: its first batches are cold."""
_WARM_BATCHES, _WARM_LIMIT_S = 5, 120.0
_SLOTS_PER_EXECUTOR = 2


@dataclass(frozen=True, slots=True)
class SimModelWorld:
    """A query of three operators on simulated executors."""

    seed: int = 1

    def observe(self, rows_per_s: float, tasks: int, interval_s: float) -> list[Observation]:
        cluster = self._cluster(rows_per_s, tasks, interval_s)
        found = []
        for second in range(1, int(2 * DURATION_S)):
            cluster.advance_to(float(second))
            found.append(cluster.observe())
        return found

    def measure(self, rows_per_s: float, tasks: int, interval_s: float) -> float:
        cluster = self._cluster(rows_per_s, tasks, interval_s)
        cluster.advance_to(DURATION_S + _DRAINS_S)
        latencies = cluster.gates[0].ledger.latencies_of(0.0, DURATION_S, DURATION_S + _DRAINS_S)
        return latencies.quantile_s(0.99) or 0.0

    def _cluster(self, rows_per_s: float, tasks: int, interval_s: float) -> SimCluster:
        operators = (
            SimOperator("lines", 0.0002, parallelism=1),
            SimOperator("lookup", ROW_S, parallelism=tasks),
            SimOperator("count", 0.0005, parallelism=2, stateful=True),
        )
        application = SimApplication("words", rows_per_s, interval_s=interval_s, operators=operators, cold_s=0.0)
        return SimCluster([application], SLOTS // _SLOTS_PER_EXECUTOR, _SLOTS_PER_EXECUTOR, seed=self.seed)


@dataclass(frozen=True, slots=True)
class SparkModelWorld:
    """A word count with a waiting look-up, on local executors. Tidegate only observes."""

    gate: Gate

    def observe(self, rows_per_s: float, tasks: int, interval_s: float) -> list[Observation]:
        found: list[Observation] = []
        with self._query(rows_per_s, tasks, interval_s) as (query, start_s):
            while time.time() < start_s + 2 * DURATION_S:
                _check(query)
                last = self.gate.runner.last
                since_s = found[-1].time_s if found else 0.0
                if last is not None and last.observation is not None and last.time_s > since_s:
                    mine = tuple(one for one in last.observation.applications if one.name == query.name)
                    found.append(replace(last.observation, applications=mine))
                time.sleep(0.2)
        return found

    def measure(self, rows_per_s: float, tasks: int, interval_s: float) -> float:
        timeline = Timeline(Constant(rate=rows_per_s))
        arrivals_s = timeline.arrivals_s(0, timeline.rows_by(DURATION_S))
        done_s = np.full(len(arrivals_s), np.inf)
        first, seen_s = 0, 0.0
        with self._query(rows_per_s, tasks, interval_s) as (query, start_s):
            while first < len(done_s) and time.time() < start_s + DURATION_S + _DRAINS_S:
                _check(query)
                last = self.gate.runner.last
                if last is not None and last.observation is not None and last.time_s > seen_s:
                    seen_s = last.time_s
                    mine = [one for one in last.observation.applications if one.name == query.name]
                    for batch in (batch for sample in mine for batch in sample.batches):
                        done_s[first : first + batch.rows] = batch.committed_s - start_s
                        first += batch.rows
                time.sleep(0.05)
        return float(np.quantile(np.minimum(done_s, DURATION_S + _DRAINS_S) - arrivals_s, 0.99, method="lower"))

    @contextmanager
    def _query(self, rows_per_s: float, tasks: int, interval_s: float) -> Iterator[tuple[RestartableQuery, float]]:
        from tidegate_lab.workloads.wordcount import WordCount

        start_s = time.time() + _WARM_S
        load = Constant(rate=rows_per_s)
        job = WordCount(
            load=load,
            rows=Timeline(load).rows_by(4 * DURATION_S),
            start_ms=round(start_s * 1000),
            lookup_s=ROW_S,
            lookup_tasks=tasks,
            count_tasks=2,
            trigger_s=interval_s,
        )
        query = self.gate.start(f"check-{round(start_s)}", job.build)
        try:
            yield query, start_s
        finally:
            query.stop_at_boundary()
            self.gate.forget(query.name)


@contextmanager
def spark_model_world(folder: Path) -> Iterator[SparkModelWorld]:
    """Start a cluster for the check and stop it afterwards."""
    from tidegate.adapters.spark.attach import attach
    from tidegate.adapters.spark.embedded import embedded_session
    from tidegate.adapters.spark.executors import settle_executors

    folder.mkdir(parents=True, exist_ok=True)
    executors = SLOTS // _SLOTS_PER_EXECUTOR
    spark = embedded_session("tidegate-model-check", executors, executors, _SLOTS_PER_EXECUTOR, 768)
    try:
        settle_executors(spark, executors)
        with attach(spark, {"journal": {"path": str(folder / "model-check.db")}}, mode="off") as gate:
            world = SparkModelWorld(gate)
            with world._query(50.0, SLOTS, 1.0) as (query, start_s):  # every slot runs some Python first
                while len(query.query.recentProgress) < _WARM_BATCHES:
                    _check(query)
                    if time.time() > start_s + _WARM_LIMIT_S:
                        raise EnvironmentUnfit("the cluster did not start processing in time")
                    time.sleep(0.2)
            yield world
    finally:
        spark.stop()


def _check(query: RestartableQuery) -> None:
    if (error := query.query.exception()) is not None:
        raise EnvironmentUnfit(f"the query failed: {str(error).splitlines()[0]}")
