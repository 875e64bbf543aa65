"""Scheduler pools: a context of its own, since the fair scheduler is chosen when Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from tidegate import Settings, attach
from tidegate.adapters.spark.schedulerpools import SchedulerPools
from tidegate.domain import Outcome, SetShare

SCRIPT = """
import json, threading, time
from pathlib import Path
from tidegate.domain import SetShare
from tidegate_lab.experiments.qos_plan import own_session
from tidegate.adapters.spark.schedulerpools import SchedulerPools, in_pool

spark = own_session("pools")
sc = spark.sparkContext
pools = SchedulerPools(sc, {"q1": 6, "q3": 1})
found = {"able": pools.capability().able}
found["early"] = pools.set_share(SetShare("q1", 0.6)).outcome
with in_pool(sc, "q3"):
    spark.range(10).count()
found["q3_before"] = pools.in_force("q3").min_share
with in_pool(sc, "q1"):
    spark.range(10).count()
found["after_block"] = sc.getLocalProperty("spark.scheduler.pool")
found["late"] = pools.set_share(SetShare("q1", 0.6)).outcome
found["q1"] = [pools.in_force("q1").weight, pools.in_force("q1").min_share]

order, over = [], Path.cwd() / "over"
def job(pool, tasks, seconds):
    def rest(rows):
        if not over.exists():
            time.sleep(seconds)
        return rows
    with in_pool(sc, pool):
        sc.parallelize(range(tasks), tasks).mapPartitions(rest).count()
    order.append(pool)

def running():
    told = sc.statusTracker()
    return any(info is not None and info.numActiveTasks for info in map(told.getStageInfo, told.getActiveStageIds()))

long = threading.Thread(target=job, args=("q3", 200, 0.5))
long.start()
while not running() and long.is_alive():
    time.sleep(0.1)
job("q1", 2, 0.1)
over.touch()
long.join()
found["order"] = order

pools.restore()
found["restored"] = [pools.in_force("q1").weight, pools.in_force("q1").min_share]
print("FOUND", json.dumps(found))
spark.stop()
"""


def test_shares_become_pool_fields_and_go_back(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("FOUND")), None)
    assert line is not None, done.stderr[-2000:]
    found = json.loads(line.removeprefix("FOUND"))
    assert found["able"]
    assert found["early"] == "under way", "the pool does not exist before a job has run in it"
    assert found["late"] == "done"
    assert found["q3_before"] == 0
    assert found["after_block"] is None
    assert found["q1"] == [60, 2]
    assert found["order"] == ["q1", "q3"], "the important class overtakes the long job"
    assert found["restored"] == [1, 0]


def test_without_the_fair_scheduler_shares_are_refused_with_the_reason(spark: SparkSession) -> None:
    pools = SchedulerPools(spark.sparkContext, {"q1": 6, "q3": 1})
    receipt = pools.set_share(SetShare("q1", 0.6))
    assert receipt.outcome is Outcome.REFUSED
    assert "spark.scheduler.mode is FIFO" in receipt.note


@pytest.mark.parametrize(
    ("knobs", "proposers", "pool"),
    [({}, None, "gold"), ({"shares": False}, None, ""), ({}, ["pool", "admission"], "")],
    ids=["by default", "shares are not allowed", "without the classes proposer"],
)
def test_a_query_gets_the_pool_of_its_class_only_if_classes_may_share_the_slots(
    spark: SparkSession, tmp_path: Path, knobs: dict[str, bool], proposers: list[str] | None, pool: str
) -> None:
    policy = {
        "mode": "apply",
        "classes": {"gold": {"latency_s": 60, "weight": 2}, "bulk": {"latency_s": 60, "weight": 1}},
        "applications": {"orders": {"class": "gold"}, "reports": {"class": "bulk"}},
        "knobs": knobs,
        "journal": {"path": str(tmp_path / "pools.db")},
    }
    given: list[Settings] = []

    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        given.append(settings)
        rows = session.readStream.format("rate").load()
        return rows.writeStream.format("noop").option("checkpointLocation", settings.checkpoint)

    with attach(spark, policy, proposers=proposers) as gate:
        query = gate.start("orders", build, tmp_path / "checkpoint")
        query.stop_at_boundary()
    assert [one.pool for one in given] == [pool]
