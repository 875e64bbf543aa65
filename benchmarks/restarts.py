"""Restarts of a plain Kafka query on a large backlog: how many first batches are unbounded?

    python benchmarks/restarts.py [--restarts N] [--rows N]

Half of the restarts have Tidegate attached beforehand, the other half right after `start()`. Every start has a query
name of its own: a query that is known may read as many rows as it has been seen to finish in time. Needs Maven or
`TIDEGATE_KAFKA`, and confluent-kafka.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import tidegate
from tidegate.adapters.spark.embedded import local_session
from tidegate.plan.admission import FIRST_ROWS
from tidegate_lab.experiments.kafka_broker import Broker, connector_jars

_PATIENCE_S = 60.0
_TOPIC = "backlog"
_MOST_UNSENT = 50_000
"""The producer's own queue holds twice as many."""


def main() -> None:
    """Fill a topic, then start the query again and again, each time from the beginning of the topic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-restarts-") as folder, Broker(Path(folder) / "broker") as broker:
        _fill(broker.address, asked.rows)
        spark = local_session("restarts", 2, 1024, {"spark.jars": ",".join(connector_jars())})
        try:
            before = _attached_before(spark, broker.address, Path(folder), asked.restarts // 2)
            after = _attached_after(spark, broker.address, Path(folder), asked.restarts - asked.restarts // 2)
        finally:
            spark.stop()
    print(json.dumps({"backlog_rows": asked.rows, "bound": FIRST_ROWS, "before": before, "after": after}, indent=2))


def _attached_before(spark: SparkSession, address: str, folder: Path, restarts: int) -> dict[str, int]:
    with tidegate.attach(spark, {"journal": {"path": str(folder / "before.db")}}):
        return _summary([_first_batch(_start(spark, address, folder / f"before-{each}")) for each in range(restarts)])


def _attached_after(spark: SparkSession, address: str, folder: Path, restarts: int) -> dict[str, int]:
    seen = []
    for each in range(restarts):
        query = _start(spark, address, folder / f"after-{each}")
        with tidegate.attach(spark, {"journal": {"path": str(folder / f"after-{each}.db")}}):
            seen.append(_first_batch(query))
    return _summary(seen)


def _summary(rows: list[int]) -> dict[str, int]:
    return {"restarts": len(rows), "unbounded": sum(each > FIRST_ROWS for each in rows), "largest": max(rows)}


def _fill(address: str, rows: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(_TOPIC, 4)])[_TOPIC].result(30)
    producer = Producer({"bootstrap.servers": address})
    for row in range(rows):
        while len(producer) >= _MOST_UNSENT:
            producer.poll(0.1)
        producer.produce(_TOPIC, key=str(row).encode(), value=b"x", partition=row % 4)
    producer.flush()


def _start(spark: SparkSession, address: str, checkpoint: Path) -> StreamingQuery:
    options = {"kafka.bootstrap.servers": address, "subscribe": _TOPIC, "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**options).load()
    writer = rows.writeStream.format("noop").queryName(checkpoint.name).option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="1 second").start()


def _first_batch(query: StreamingQuery) -> int:
    """Rows of the first batch."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while not query.recentProgress and time.monotonic() < deadline_s:
        time.sleep(0.02)
    rows = int(query.recentProgress[0]["numInputRows"])
    query.stop()
    return rows


if __name__ == "__main__":
    main()
