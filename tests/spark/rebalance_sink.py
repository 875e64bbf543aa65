"""A process for the test of sinks that skip a batch whose number they know: the first batch on new state reaches the
sink, and the query fails before it commits.

python -m tests.spark.rebalance_sink FOLDER FORMAT [JARS]    FORMAT: parquet, or delta with its jars
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.delta_job import SESSION
from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.embedded import local_session
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.source import TidegateSource
from tidegate.adapters.spark.transaction import RebalanceFailed, Step, Transaction


def main(folder: Path, form: str, jars: str) -> None:
    spark = local_session("sink", slots=2, memory_mb=1536, settings={"spark.jars": jars, **SESSION} if jars else {})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(TidegateSource)
    order = folder / "order"

    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        rows = session.readStream.format("tidegate").option("load", "100").option("gate", settings.gate).load()
        once = rows.select("index").dropDuplicates(["index"]).mapInArrow(hindered(order), "index BIGINT")
        writer = once.writeStream.outputMode("append").format(form).option("path", str(folder / "table"))
        return writer.option("checkpointLocation", settings.checkpoint).trigger(**settings.trigger(0.5))

    settings = Settings("sunk", gate=str(folder / "gate.json"), checkpoint=str(folder / "checkpoint"))
    query = RestartableQuery(spark, build, settings)
    checkpoint = Checkpoint(spark, settings.checkpoint)
    wait_for_commits(query, checkpoint, 2)

    def told(transaction: Transaction) -> None:
        if transaction.step is Step.VERIFIED:
            obstacle = folder / f"checkpoint/commits/{checkpoint.position().committed + 1}"
            order.write_text(str(obstacle))
            threading.Thread(target=clear, args=(query, query.query, obstacle), daemon=True).start()

    try:
        print("done:", query.rebalance(query.settings.with_parallelism("count", 4), 4, told).note)
    except RebalanceFailed as error:
        print("failed:", error)
    if order.exists():
        raise SystemExit("the batch was never hindered")
    wait_for_commits(query, checkpoint, 4)
    query.stop_at_boundary()
    found = [index for file in committed_files(folder / "table") for index in pq.read_table(file)["index"].to_pylist()]
    lost = len(set(range(max(found) + 1)) - set(found))
    print(f"rows {len(found)} lost {lost} doubled {len(found) - len(set(found))}")
    spark.stop()


def hindered(order: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows go through. One task takes the order, if there is one: a folder takes the place of this batch's commit,
    which then fails."""

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with contextlib.suppress(FileNotFoundError):
            Path(order.rename(f"{order}.taken").read_text()).mkdir()
        yield from batches

    return through


def clear(query: RestartableQuery, before: object, obstacle: Path) -> None:
    """Remove the obstacle once it has made the new query fail."""
    while query.query is before or query.query.exception() is None:
        time.sleep(0.01)
    obstacle.rmdir()


def committed_files(table: Path) -> set[Path]:
    """The files that the sink's own log names; what a failed attempt left beside them does not count."""
    entries = [
        json.loads(line)
        for log in (*table.glob("_spark_metadata/[0-9]*"), *table.glob("_delta_log/*.json"))
        for line in log.read_text().splitlines()
        if line.startswith("{")
    ]
    added = (entry.get("add", entry).get("path") for entry in entries)  # Delta has other entries too
    return {table / str(path).removeprefix("file://") for path in added if path}


def wait_for_commits(query: RestartableQuery, checkpoint: Checkpoint, count: int) -> None:
    first, deadline_s = checkpoint.position().committed, time.monotonic() + 400
    while checkpoint.position().committed < first + count:
        if query.query.exception() is not None or time.monotonic() > deadline_s:
            raise SystemExit(f"no batches: {query.query.exception()}")
        time.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
