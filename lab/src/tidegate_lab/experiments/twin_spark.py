"""The runs of the twin's check on Spark: the demonstration's job on its embedded cluster, on pools of a fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.load import Burst
from tidegate_lab.experiments.demo import DemoPlan, run_once, start_cluster
from tidegate_lab.experiments.twin_check import Figures, FixedRun

_NO_SURPRISE = Burst(base=0, peak=0, start_s=0, duration_s=1)


@dataclass(frozen=True, slots=True)
class SparkTwinWorld:
    """A word count with a waiting look-up, on local executors. Tidegate only observes."""

    spark: SparkSession

    def run(self, plan: FixedRun, journal: Path) -> Figures:
        demo = DemoPlan(
            peak=plan.peak,
            surprise=_NO_SURPRISE,
            duration_s=plan.lasts_s,
            objective_s=plan.objective_s,
            warm_up_s=plan.warm_up_s,
        )
        record = run_once(self.spark, demo, journal.stem, plan.executors, journal.parent, lambda *_: None)
        found = record.result
        return Figures(found.violation_rate, found.executor_seconds, found.p99_s)


@contextmanager
def spark_twin_world() -> Iterator[SparkTwinWorld]:
    spark = start_cluster()
    try:
        yield SparkTwinWorld(spark)
    finally:
        spark.stop()
