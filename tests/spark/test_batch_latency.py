"""Complete latency by batch size and executors: a tiny grid on live Spark, and the workloads' rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate
from tidegate.load import Constant
from tidegate_lab.experiments.batch_latency import Course, evaluate, measure
from tidegate_lab.experiments.batch_latency_figures import draw_all
from tidegate_lab.experiments.batch_latency_plan import WORKLOADS, Plan

ROWS = 600
TINY = Plan(
    executors=(1, 2),
    rows_per_batch=(50, 1000),
    intensive_rows_per_batch=(1000,),
    workloads=("wordcount", "network"),
    fixed_tasks=False,
    batches=2,
    cell_s=0.5,
    warm_batches=1,
    congestion_rows=1000,
    rates=(0.3,),
    intensive_rates=(),
    rate_s=20.0,
    settle_s=5.0,
)


def test_a_tiny_grid(spark: SparkSession, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    course = Course(TINY, tmp_path / "journal.db", lambda *news: told.append(news))
    measure(spark, course)
    document, correlations = evaluate(course)

    cells = {(each["rows_per_batch"], each["executors"]): each for each in document["complete_latency"]}
    assert set(cells) == {(50, 1), (50, 2), (1000, 1), (1000, 2)}
    assert all(each["batches"] >= 2 and 0 < each["latency_s"] <= each["latency_max_s"] for each in cells.values())
    # 1000 rows wait 0.2 s in one slot at a time: the batch cannot be shorter.
    assert cells[1000, 1]["latency_s"] > 0.2
    assert [each["executors"] for each in document["max_throughput"]] == [1, 2]
    (rate,) = document["congestion"]
    assert rate["throughput_rows_per_s"] == pytest.approx(rate["rate_rows_per_s"], rel=0.5)
    assert 0 < rate["latency_s"] <= rate["latency_p99_s"]
    assert {"lines", "split", "count"} <= set(rate["capacity"])
    assert document["workloads"]["network"]["complete_latency"]
    assert told[-1][0] == told[-1][1] == TINY.steps
    assert correlations is not None
    written = draw_all(document, correlations, tmp_path)
    assert all(path.stat().st_size > 1000 for path in written)


@pytest.mark.parametrize("workload", ["cpu", "memory", "network"])
def test_no_row_is_lost_or_doubled(gate: Gate, spark: SparkSession, tmp_path: Path, workload: str) -> None:
    job = WORKLOADS[workload](Constant(rate=1e6), rows=ROWS, lookup_tasks=2, count_tasks=2, trigger_s=0.0)
    query = gate.start(workload, job.build, checkpoint=tmp_path / "checkpoint")
    query.query.processAllAvailable()
    query.query.stop()
    state = spark.read.format("statestore").load(str(tmp_path / "checkpoint")).select("key", "value").collect()
    assert sum(row.value[0] for row in state) == ROWS
    assert sum(row.value[1] for row in state) == ROWS * (ROWS - 1) // 2
