"""Starts and restarts of a plain Kafka query on a large backlog: how many first batches are unbounded?

    python benchmarks/restarts.py [--starts N] [--restarts N] [--rows N]

A start has a checkpoint and a query name of its own. A restart goes on with the checkpoint of the run before, and the
rows that were read meanwhile are produced again, so that the backlog remains. Half of each have Tidegate attached
beforehand, the other half right after `start()`. Every attachment has a journal of its own: a query that is known may
read as many rows as it has been seen to finish in time. What a restart repeats was planned before, so the first batch
that counts is the first one that it plans itself. Needs Maven or `TIDEGATE_KAFKA`, and confluent-kafka.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import tidegate
from tidegate.adapters.spark.embedded import local_session
from tidegate.plan.admission import FIRST_ROWS
from tidegate_lab.experiments.kafka_broker import Broker, connector_jars, create_topic

_PATIENCE_S = 60.0
_TOPIC = "backlog"
_PARTITIONS = 4
_MOST_UNSENT = 50_000
"""The producer's own queue holds twice as many."""


def main() -> None:
    """Fill a topic, then start the query from its beginning again and again, and then restart it where it stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200_000, help="backlog at each start")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-restarts-") as folder, Broker(Path(folder) / "broker") as broker:
        create_topic(broker.address, _TOPIC, _PARTITIONS)
        topic = _Topic(broker.address)
        topic.fill(asked.rows)
        spark = local_session("restarts", 2, 1024, {"spark.jars": ",".join(connector_jars())})
        course = _Course(spark, topic, Path(folder), asked.rows)
        try:
            starts = {when: course.starts(when, part) for when, part in _halves(asked.starts)}
            restarts = {when: course.restarts(when, part) for when, part in _halves(asked.restarts)}
        finally:
            spark.stop()
    found = {"backlog_rows": asked.rows, "first_bound": FIRST_ROWS, "starts": starts, "restarts": restarts}
    print(json.dumps(found, indent=2))


def _halves(count: int) -> tuple[tuple[str, int], ...]:
    return ("before", count // 2), ("after", count - count // 2)


class _Topic:
    """A topic whose partitions are filled evenly."""

    def __init__(self, address: str) -> None:
        from confluent_kafka import Producer

        self.address = address
        self.rows = 0
        self._producer = Producer({"bootstrap.servers": address})

    def fill(self, rows: int) -> None:
        """Produce until the topic has this many rows."""
        for row in range(self.rows, rows):
            while len(self._producer) >= _MOST_UNSENT:
                self._producer.poll(0.1)
            self._producer.produce(_TOPIC, key=str(row).encode(), value=b"x", partition=row % _PARTITIONS)
        self._producer.flush()
        self.rows = max(rows, self.rows)


@dataclass(frozen=True, slots=True)
class _Course:
    spark: SparkSession
    topic: _Topic
    folder: Path
    backlog: int

    def starts(self, when: str, count: int) -> dict[str, int]:
        """First batches of queries with new checkpoints."""
        seen = [self._first_batch(when, self.folder / f"{when}-{each}", f"{each}") for each in range(count)]
        return self._summary(seen)

    def restarts(self, when: str, count: int) -> dict[str, int]:
        """First batches of one query that is restarted, each with the same backlog."""
        checkpoint = self.folder / f"again-{when}"
        seen, repeated = [], 0
        self._first_batch(when, checkpoint, "again")
        for each in range(count):
            planned, rows = _planned(checkpoint)
            repeated += not (checkpoint / "commits" / str(planned)).exists()
            self.topic.fill(rows + self.backlog)
            seen.append(self._first_batch(when, checkpoint, f"again-{each}", after=planned))
        return self._summary(seen) | {"with_a_repeated_batch": repeated}

    def _first_batch(self, when: str, checkpoint: Path, journal: str, after: int = -1) -> int:
        """Rows of the first batch that a run plans itself."""
        policy = {"journal": {"path": str(self.folder / f"{when}-{journal}.db")}}
        with _attached(self.spark, policy, when == "before"):
            query = self._start(checkpoint)
            with _attached(self.spark, policy, when == "after"):
                deadline_s = time.monotonic() + _PATIENCE_S
                while not (rows := _own_batches(query, after)) and time.monotonic() < deadline_s:
                    time.sleep(0.02)
                query.stop()  # before its control ends, which lifts the limit
        return rows[0]

    def _summary(self, rows: list[int]) -> dict[str, int]:
        """An unbounded batch takes all that waits. One over the first bound follows a repeated batch."""
        return {
            "runs": len(rows),
            "unbounded": sum(each >= self.backlog for each in rows),
            "over_the_first_bound": sum(each > FIRST_ROWS for each in rows),
            "largest": max(rows, default=0),
        }

    def _start(self, checkpoint: Path) -> StreamingQuery:
        address = self.topic.address
        options = {"kafka.bootstrap.servers": address, "subscribe": _TOPIC, "startingOffsets": "earliest"}
        rows = self.spark.readStream.format("kafka").options(**options).load()
        writer = rows.writeStream.format("noop").queryName(checkpoint.name)
        return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="1 second").start()


@contextmanager
def _attached(spark: SparkSession, policy: dict[str, Any], wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with tidegate.attach(spark, policy):
        yield


def _own_batches(query: StreamingQuery, after: int) -> list[int]:
    """Rows of the batches after the newest one that was planned before."""
    return [one["numInputRows"] for one in query.recentProgress if one["batchId"] > after and one["numInputRows"]]


def _planned(checkpoint: Path) -> tuple[int, int]:
    """The newest batch in the log, and the rows of the topic up to its end."""
    batch = max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    ends = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return batch, sum(ends[_TOPIC].values())


if __name__ == "__main__":
    main()
