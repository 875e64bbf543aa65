"""Where more tasks cannot help, none are asked for, and the journal says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.conftest import wait_for
from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.restartablequery import Build
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.topology import Topology
from tidegate.control.journal import read_entries
from tidegate.domain import SetParallelism


def lines(session: SparkSession, settings: Settings, rate: int) -> Topology:
    source = session.readStream.format("tidegate").option("load", str(rate)).option("gate", settings.gate).load()
    return Topology.source("lines", source, event_time="event_time", settings=settings)


def watched(spark: SparkSession, folder: Path, name: str, build: Build, code: str) -> Gate:
    """Run until the planner has told that reason."""
    policy = {
        "mode": "apply",
        "objective": {"latency_s": 1.5},
        "executors": {"min": 1, "max": 1},
        "journal": {"path": str(folder / "gate.db")},
    }
    with attach(spark, policy) as gate:
        query = gate.start(name, build, checkpoint=folder / "checkpoint")
        try:
            wait_for(lambda: code in reasons(gate), f"{code} in the journal", limit_s=400)
        finally:
            query.query.stop()
    return gate


def reasons(gate: Gate) -> dict[str, str]:
    entries = read_entries(gate.journal.path, observations=False)
    return {reason.code: reason.text for entry in entries if entry.decision for reason in entry.decision.reasons}


def rescales(gate: Gate) -> list[SetParallelism]:
    entries = read_entries(gate.journal.path, observations=False)
    actions = [action for entry in entries if entry.decision for action in entry.decision.actions]
    return [action for action in actions if isinstance(action, SetParallelism)]


def test_a_slow_sink_is_named_and_nothing_is_rescaled(spark: SparkSession, tmp_path: Path) -> None:
    def slowly(rows: DataFrame, batch: int) -> None:
        rows.write.format("noop").mode("overwrite").save()
        time.sleep(2.5)

    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        flow = lines(session, settings, 60).operator("copy", lambda rows: rows, parallelism=2)
        writer = flow.frame.writeStream.foreachBatch(slowly).trigger(processingTime="1 second")
        return writer.option("checkpointLocation", settings.checkpoint)

    gate = watched(spark, tmp_path, "slow-sink", build, "hold-slow-sink")
    assert rescales(gate) == []
    assert "sink" in reasons(gate)["hold-slow-sink"]


def test_a_hot_key_is_named_by_its_partition_and_nothing_is_rescaled(spark: SparkSession, tmp_path: Path) -> None:
    def looked_up(rows: DataFrame) -> DataFrame:
        def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                time.sleep(0.012 * batch.num_rows)
                yield batch

        return rows.mapInArrow(wait, rows.schema)

    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        keyed = lines(session, settings, 60)
        hot = keyed.rows.withColumn("key", F.when(F.col("index") % 10 < 9, 0).otherwise(F.col("index") % 97))
        flow = Topology(hot, keyed.names, keyed.settings).operator("enrich", looked_up, parallelism=4, key="key")
        writer = flow.frame.writeStream.format("noop").trigger(processingTime="1 second")
        return writer.option("checkpointLocation", settings.checkpoint)

    gate = watched(spark, tmp_path, "hot-key", build, "hold-skew")
    assert rescales(gate) == []
    assert "partition" in reasons(gate)["hold-skew"]
