"""What is seen of live queries: operators, rows, latency, backlog, and the untidy ways of real jobs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.conftest import batches, samples, told_rows, wait_for, wait_for_batches
from tidegate.adapters.spark.attach import Gate
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.topology import Topology
from tidegate.adapters.spark.watcher import Watcher
from tidegate.domain import BatchSample
from tidegate.history.batchrecords import Flattener, Surroundings
from tidegate.load import Constant, Timeline
from tidegate_lab.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts


def rows_of(spark: SparkSession, rate: float = 100, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("tidegate").option("load", str(rate)).options(**given).load()


def record(batch: BatchSample) -> dict[str, float]:
    """What the history keeps of it."""
    return Flattener().metrics(batch, Surroundings())


def types(batch: BatchSample) -> dict[str, list[str]]:
    found = record(batch)
    names = ("source", "stateful", "sink")
    return {one.name: [name for name in names if found[f"{one.name}.is_{name}"]] for one in batch.operators}


def test_operators_rows_and_latency_of_a_topology(spark: SparkSession, gate: Gate) -> None:
    job = WordCount(Constant(rate=200), lookup_s=0.001, lookup_tasks=3, count_tasks=2)
    query = gate.start("words", job.build)
    wait_for_batches(gate, "words", 4)
    query.stop_at_boundary()
    rows = told_rows(spark, gate, "words")
    seen = [batch for batch in batches(gate, "words") if batch.rows]
    for batch in seen:
        assert [operator.name for operator in batch.operators] == ["lines", "lookup", "count"]
        lines, lookup, count = batch.operators
        assert (lines.rows_in, lookup.rows_in) == (batch.rows, batch.rows)
        assert lines.rows_transferred == batch.rows
        assert 0 < lookup.rows_transferred <= lookup.rows_out  # type: ignore[operator]
        assert count.rows_transferred == 0
        assert (lookup.parallelism, count.parallelism) == (3, 2)
        assert lookup.busy_s >= 0.001 * batch.rows
        assert batch.busy_s == pytest.approx(sum(operator.busy_s for operator in batch.operators))
        assert batch.latency is not None
        assert batch.latency.rows == batch.rows
        assert 0 < batch.overhead_s < batch.duration_s  # type: ignore[operator]
    assert max(recorded["peak_memory_bytes"] for recorded in map(record, seen)) > 0, "aggregating takes memory"
    assert all(recorded["spill_bytes"] == recorded["tasks_failed"] == 0 for recorded in map(record, seen))
    assert all(recorded["gc_s"] >= 0 and recorded["state_memory_bytes"] > 0 for recorded in map(record, seen))
    assert types(seen[-1]) == {"lines": ["source"], "lookup": [], "count": ["stateful", "sink"]}
    check = check_rows(state_counts(spark, query.settings.checkpoint), expected_counts(rows))
    assert (check.rows_out, check.rows_lost, check.rows_doubled) == (rows, 0, 0)


def test_an_executor_that_only_the_status_store_knows_is_not_counted(spark: SparkSession) -> None:
    """It was killed while it started, and its block manager was registered after it had been removed."""
    watcher, context, jvm = Watcher(spark), spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
    assert jvm is not None
    manager = jvm.org.apache.spark.storage.BlockManagerId.apply("ghost", "127.0.0.1", 34868, jvm.scala.Option.empty())
    none = jvm.scala.Option.empty()
    added = jvm.org.apache.spark.scheduler.SparkListenerBlockManagerAdded
    context.listenerBus().post(added(int(time.time() * 1000), manager, 1024, none, none))

    def listed() -> list[str]:
        found = context.statusStore().executorList(True)
        return [found.apply(index).id() for index in range(found.length())]

    wait_for(lambda: "ghost" in listed(), "the ghost")
    assert "ghost" not in [executor.id for executor in watcher.executors()]
    removed = jvm.org.apache.spark.scheduler.SparkListenerExecutorRemoved
    context.listenerBus().post(removed(int(time.time() * 1000), "ghost", "the test has ended"))


def test_sketched_latency_agrees_with_the_exact_one(spark: SparkSession, gate: Gate) -> None:
    start_ms = int(time.time() * 1000)
    job = WordCount(Constant(rate=300), start_ms=start_ms, lookup_s=0.0, lookup_tasks=2, count_tasks=2)
    gate.start("latency", job.build)
    wait_for_batches(gate, "latency", 4)
    arrivals_s = Timeline(Constant(rate=300)).arrivals_s(0, 100_000) + start_ms / 1000
    first = 0
    for batch in batches(gate, "latency"):
        exact = batch.committed_s - arrivals_s[first : first + batch.rows]
        first += batch.rows
        if batch.latency is not None:
            assert batch.latency.max_s == pytest.approx(exact.max(), abs=0.01)
            # KLL with k = 200 is within 1.7 % of the rank, and rows are spread evenly over the batch.
            slack = 0.04 * (exact.max() - exact.min()) + 0.01
            assert batch.latency.p50_s == pytest.approx(np.quantile(exact, 0.5), abs=slack)
            assert batch.latency.p99_s == pytest.approx(np.quantile(exact, 0.99), abs=slack)


def test_queries_of_other_sessions_are_seen(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    other = spark.newSession()
    query = (
        other.readStream.format("rate")  # a Python source's name can be registered in one session only
        .option("rowsPerSecond", 50)
        .load()
        .writeStream.format("noop")
        .queryName("elsewhere")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        found = wait_for_batches(gate, "elsewhere", 2)
        assert found[-1].busy_s is not None
        assert samples(gate, "elsewhere")[-1].interval_s == 1.0
    finally:
        query.stop()


def test_plain_queries_get_operators_from_their_plan(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    query = (
        rows_of(spark)
        .groupBy("value")
        .count()
        .writeStream.outputMode("update")
        .format("noop")
        .queryName("plain")
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    try:
        found = wait_for_batches(gate, "plain", 2)
        assert [operator.name for operator in found[-1].operators] == ["scan", "aggregate"]
        told = [sample for sample in samples(gate, "plain") if any(batch.rows for batch in sample.batches)]
        assert told[-1].estimated == {"latency"}
    finally:
        query.stop()


def test_foreach_batch_counts_rows_by_offsets(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    def twice(frame: DataFrame, batch_id: int) -> None:
        frame.count()
        frame.count()

    query = (
        rows_of(spark, rows=150, rows_per_trigger=50)
        .writeStream.foreachBatch(twice)
        .queryName("twice")
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    try:
        wait_for(lambda: sum(batch.rows for batch in batches(gate, "twice")) >= 150, "150 rows")
        assert sum(batch.rows for batch in batches(gate, "twice")) == 150
        assert max(batch.rows for batch in batches(gate, "twice")) <= 50
    finally:
        query.stop()


def test_several_sources_and_a_join(spark: SparkSession, gate: Gate) -> None:
    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        left = Topology.source("left", rows_of(session, 60), "event_time", settings)
        right = Topology.source("right", rows_of(session, 40), settings=settings)

        def joined(one: DataFrame, two: DataFrame) -> DataFrame:
            mine = one.withWatermark("event_time", "10 seconds").select("index", "event_time")
            yours = two.withColumnRenamed("event_time", "other_time").withWatermark("other_time", "10 seconds")
            near = F.expr("other_time BETWEEN event_time - INTERVAL 5 SECONDS AND event_time + INTERVAL 5 SECONDS")
            return mine.join(
                yours.select(F.col("index").alias("other"), "other_time"), (F.col("index") == F.col("other")) & near
            )

        flow = left.join("match", right, joined)
        return flow.frame.writeStream.format("noop").option("checkpointLocation", settings.checkpoint)

    gate.start("join", build)
    found = wait_for_batches(gate, "join", 3)
    last = found[-1]
    assert [operator.name for operator in last.operators] == ["left", "right", "match"]
    assert last.backlog_rows is not None
    left, right, _ = last.operators
    assert left.rows_in is not None
    assert right.rows_in is not None
    assert left.rows_in + right.rows_in == last.rows
    assert types(last) == {"left": ["source"], "right": ["source"], "match": ["stateful", "sink"]}


def test_an_available_now_job_is_seen_though_it_ends(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    start_ms = int(time.time() * 1000) - 10_000
    query = (
        rows_of(spark, start_ms=start_ms, rows=500)
        .writeStream.format("noop")
        .queryName("once")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    wait_for(lambda: sum(batch.rows for batch in batches(gate, "once")) == 500, "all 500 rows")
    assert samples(gate, "once")[-1].bounded


def test_a_failing_query_is_reported(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    query = (
        rows_of(spark)
        .select(F.raise_error(F.lit("no such thing")))
        .writeStream.format("noop")
        .queryName("broken")
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    wait_for(lambda: query.exception(), "the failure")
    found = wait_for(lambda: [seen for seen in samples(gate, "broken") if seen.error], "the report")
    assert not found[-1].running
    assert gate.running


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load": "fast"}, "give a rate"),
        ({"load": "10", "partitons": "3"}, "unknown option 'partitons'"),
        ({"load": "10", "partitions": "0"}, "the minimum is 1"),
        ({}, "give .option"),
    ],
)
def test_wrong_source_options_say_what_is_right(
    spark: SparkSession, gate: Gate, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    frame = spark.readStream.format("tidegate").options(**options).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    error = wait_for(lambda: query.exception(), "the error")
    assert message in str(error)
