"""Throttling changes no result: event times that are skewed, joins, several sources, and rows that keep coming."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tests.spark.conftest import Produce, batches, input_rows, wait_for
from tidegate.adapters.spark.attach import Gate

AHEAD_S = 3600
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
Build = Callable[[SparkSession, Path], DataFrame]


def write(folder: Path, name: str, seconds: list[int], row: str = "") -> None:
    """Five rows of each second, a file a second, in the order in which they are given."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for number, second in enumerate(seconds):
        path = folder / name / f"{number:05}.csv"
        path.write_text("".join(f"{second},{row or copy}\n" for copy in range(5)))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def timed(spark: SparkSession, folder: Path, name: str, column: str = "at") -> DataFrame:
    rows = spark.readStream.schema("second LONG, row STRING").csv(str(folder / name))
    return rows.select(F.timestamp_seconds("second").alias(column), F.col("row").alias(f"{column}_row")).withWatermark(
        column, "2 seconds"
    )


def windows(rows: DataFrame, length: str = "3 seconds", at: str | Column = "at") -> DataFrame:
    counted = rows.groupBy(F.window(at, length)).count()
    return counted.select(F.unix_timestamp("window.start").alias("start"), "count")


def skewed(spark: SparkSession, folder: Path) -> DataFrame:
    """The first file is an hour ahead: read alone, it would make all others late."""
    write(folder, "one", [AHEAD_S, *range(12)])
    return windows(timed(spark, folder, "one"))


def united(spark: SparkSession, folder: Path) -> DataFrame:
    """Policy `max`: the source that is ahead moves the watermark for both."""
    spark.conf.set(_POLICY, "max")
    write(folder, "ahead", list(range(AHEAD_S, AHEAD_S + 12)))
    write(folder, "behind", list(range(12)))
    return windows(timed(spark, folder, "ahead").unionByName(timed(spark, folder, "behind")))


def joined(spark: SparkSession, folder: Path) -> DataFrame:
    """The right side comes in the opposite order, its newest rows first."""
    write(folder, "left", [*range(100, 112), AHEAD_S], row="key")
    write(folder, "right", [AHEAD_S, *reversed(range(100, 112))], row="key")
    left, right = timed(spark, folder, "left", "l"), timed(spark, folder, "right", "r")
    near = F.expr("l_row = r_row AND r BETWEEN l - INTERVAL 1 SECOND AND l + INTERVAL 1 SECOND")
    return left.join(right, near).select(F.unix_timestamp("l").alias("l"), F.unix_timestamp("r").alias("r"))


def start(frame: DataFrame, name: str, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
    return (
        writer.option("checkpointLocation", str(checkpoint / name)).trigger(processingTime="100 milliseconds").start()
    )


def result(spark: SparkSession, name: str) -> list[tuple[int, ...]]:
    return sorted(tuple(int(value) for value in row) for row in spark.table(name).collect())


@pytest.mark.parametrize(("build", "rows"), [(skewed, 4), (united, 7), (joined, 34 * 25 + 25)])
def test_throttled_files_give_the_same_result(
    spark: SparkSession, gate: Gate, tmp_path: Path, build: Build, rows: int
) -> None:
    gate.cluster.limits.limit("parts", 1)
    gate.cluster.limits.renew()
    frame = build(spark, tmp_path)
    parts, whole = start(frame, "parts", tmp_path), start(frame, "whole", tmp_path)
    for query in (parts, whole):
        query.processAllAvailable()
    assert result(spark, "parts") == result(spark, "whole")
    assert len(result(spark, "whole")) == rows
    assert len(input_rows(whole)) == 1
    assert len(input_rows(parts)) >= 12
    assert sum(batch.dropped_rows or 0 for batch in batches(gate, "parts")) == 0


def seconds(spark: SparkSession, address: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    at = F.timestamp_seconds(F.col("value").cast("string").cast("long")).alias("at")
    return spark.readStream.format("kafka").options(**options).load().select(at).withWatermark("at", "10 seconds")


def send(address: str, topic: str, partition: int, times: range, copies: int = 1) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address})
    for second in times:
        for _ in range(copies):
            producer.produce(topic, value=str(second).encode(), partition=partition)
    assert producer.flush(120) == 0


def test_throttled_partitions_with_skewed_event_times_give_the_same_result(
    spark: SparkSession, gate: Gate, address: str, produce: Produce, tmp_path: Path
) -> None:
    """One partition is an hour ahead; while the query catches up, far more rows come into it than into the other.

    The partition that is ahead is read past what was there at first long before the other is: that must not move the
    watermark past the other's new rows.
    """
    produce("skewed", 0)
    send(address, "skewed", 1, range(200), copies=10)  # fifty batches: it is far from done when it is paused
    send(address, "skewed", 2, range(20))
    frame = windows(seconds(spark, address, "skewed"), "50 seconds")
    gate.cluster.limits.limit("parts", 40)
    gate.cluster.limits.renew()
    parts, whole = start(frame, "parts", tmp_path), start(frame, "whole", tmp_path)
    wait_for(lambda: input_rows(parts) and input_rows(whole), "first batches")
    for name in ("parts", "whole"):
        gate.cluster.limits.pause(name, "test", 600.0)
    wait_for(lambda: gate.cluster.limits.quiet("parts") and gate.cluster.limits.quiet("whole"), "quiet")
    assert sum(input_rows(parts)) < 2000 < sum(input_rows(whole))
    gate.cluster.limits.limit("parts", 200)
    send(address, "skewed", 2, range(AHEAD_S, AHEAD_S + 1500))
    send(address, "skewed", 1, range(200, 260))
    for name in ("parts", "whole"):
        gate.cluster.limits.resume(name, "test")
    for query in (parts, whole):
        query.processAllAvailable()
    assert result(spark, "parts") == result(spark, "whole")
    counted = dict(result(spark, "whole"))
    assert (counted[200], counted[250]) == (50, 10), "rows of the slower partition that came later"
    assert len(input_rows(parts)) > 10 > len(input_rows(whole))


def test_two_topics_under_policy_max_give_the_same_result(
    spark: SparkSession, gate: Gate, address: str, produce: Produce, tmp_path: Path
) -> None:
    spark.conf.set(_POLICY, "max")
    for topic, first in (("ahead", AHEAD_S), ("behind", 0)):
        produce(topic, 0)
        send(address, topic, 0, range(first, first + 200))
    frame = windows(seconds(spark, address, "ahead").union(seconds(spark, address, "behind")), "50 seconds")
    gate.cluster.limits.limit("parts", 40)
    gate.cluster.limits.renew()
    parts, whole = start(frame, "parts", tmp_path), start(frame, "whole", tmp_path)
    for query in (parts, whole):
        query.processAllAvailable()
    assert result(spark, "parts") == result(spark, "whole")
    assert result(spark, "whole")[:4] == [(0, 50), (50, 50), (100, 50), (150, 50)]
    assert len(input_rows(parts)) >= 10
