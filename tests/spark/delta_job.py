"""A job on Delta tables under control, in a Spark that Delta runs on: what came of it, as JSON on stdout."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark import limits as live_limits
from tidegate.adapters.spark.attach import attach
from tidegate.adapters.spark.embedded import local_session
from tidegate.adapters.spark.settings import Settings

AHEAD_S = 3600
SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def append(spark: SparkSession, table: Path, first: int, seconds: int) -> None:
    """Ten rows a file, one file a version."""
    rows = spark.range(first, first + 10).withColumn("at", F.timestamp_seconds(F.lit(seconds)))
    rows.coalesce(1).write.format("delta").mode("append").save(str(table))


def start(spark: SparkSession, folder: Path, name: str, **options: int) -> StreamingQuery:
    rows = spark.readStream.format("delta").options(**{key: str(value) for key, value in options.items()})
    distinct = rows.load(str(folder / "rows")).withWatermark("at", "2 seconds").dropDuplicates(["id", "at"])
    writer = (
        distinct.writeStream.format("delta").queryName(name).option("checkpointLocation", str(folder / f"c-{name}"))
    )
    return writer.trigger(processingTime="200 milliseconds").start(str(folder / name))


def input_rows(query: StreamingQuery) -> list[int]:
    return [report["numInputRows"] for report in query.recentProgress if report["numInputRows"]]


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + 300.0
    while not condition():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.1)


def ids(spark: SparkSession, table: Path) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(str(table)).collect())


def main(folder: Path, jars: str) -> dict[str, object]:
    spark = local_session("delta", 2, 1024, {"spark.jars": jars, "spark.sql.shuffle.partitions": "2", **SESSION})
    for number in range(6):
        append(spark, folder / "rows", 10 * number, AHEAD_S if number == 0 else number)
    with attach(spark, {"mode": "off", "interval_s": 0.3, "journal": {"path": str(folder / "gate.db")}}) as gate:
        live_limits.LEASE_S = 1200.0  # nobody renews it
        limits = gate.cluster.limits
        for name in ("parts", "few"):
            limits.limit(name, 1)
        limits.renew()
        parts, whole = start(spark, folder, "parts"), start(spark, folder, "whole")
        for query in (parts, whole):
            query.processAllAvailable()
        found: dict[str, object] = {
            "parts": input_rows(parts),
            "whole": input_rows(whole),
            "same": ids(spark, folder / "parts") == ids(spark, folder / "whole"),
            "rows": len(ids(spark, folder / "whole")),
        }
        limits.pause("parts", "test", 600.0)
        wait_for(lambda: limits.quiet("parts"), "quiet")
        append(spark, folder / "rows", 100, AHEAD_S + 1)
        wait_for(lambda: len(input_rows(whole)) == 2, "the other query")
        time.sleep(0.5)
        found["paused"] = input_rows(parts) == found["parts"]
        limits.resume("parts", "test")
        parts.processAllAvailable()
        found["resumed"] = ids(spark, folder / "parts") == ids(spark, folder / "whole")
        for query in (parts, whole):
            query.stop()
        limits.limit("own", 1_000_000)
        own = start(spark, folder, "own", maxFilesPerTrigger=2)
        own.processAllAvailable()
        found["own"] = max(input_rows(own))
        own.stop()

        def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
            rows = session.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(folder / "rows"))
            counts = rows.groupBy("id").count().writeStream.outputMode("complete").format("delta")
            writer = counts.option("path", str(folder / "counts")).option("checkpointLocation", settings.checkpoint)
            return writer.trigger(**settings.trigger(0.2))

        query = gate.start("rescaled", build, checkpoint=folder / "rescaled")
        wait_for(lambda: len(input_rows(query.query)) >= 2, "batches before the rescale")
        query.rebalance(query.settings.with_parallelism("state", 3), 3)
        query.query.processAllAvailable()
        query.stop_at_boundary()
        counts = spark.read.format("delta").load(str(folder / "counts")).collect()
        found["counts"] = sorted({row["count"] for row in counts})
        found["counted"] = len(counts)
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
