"""A client of Spark Connect whose query is too slow for its load: run by `test_connect.py` in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.control.journal import read_entries
from tidegate.domain import NotSupported


def slow(value: int) -> int:
    time.sleep(0.004)
    return value


def orders(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 700).option("numPartitions", 2).load()
    return rows.select(F.udf(slow, "long")("value"))


def main(journal: str) -> None:
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    policy = {
        "mode": "apply",
        "objective": {"latency_s": 8},
        "executors": {"max": 6},
        "interval_s": 0.5,
        "journal": {"path": journal},
    }
    with tidegate.attach(spark, policy) as gate:
        found: dict[str, Any] = {"capabilities": {one.actuator: one.able for one in gate.capabilities()}}
        found["mode"] = str(gate.policy.mode)
        try:
            gate.start("own", lambda session, settings: orders(session).writeStream)
        except NotSupported as error:
            found["start"] = str(error)
        writer = orders(spark).writeStream.format("noop").queryName("orders")
        query = writer.trigger(processingTime="1 second").start()
        wanted: set[int] = set()
        deadline_s = time.monotonic() + 120
        while not wanted and time.monotonic() < deadline_s:
            time.sleep(1)
            if (failure := query.exception()) is not None:
                raise failure
            decisions = [entry.decision for entry in read_entries(journal) if entry.decision]
            actions = [action for decision in decisions for action in decision.actions]
            wanted = {action.target for action in actions if isinstance(action, tidegate.ScaleExecutors)}
        found["wanted"] = sorted(wanted)
        query.stop()
    entries = list(read_entries(journal))
    samples = [one for entry in entries if entry.observation for one in entry.observation.applications]
    found["batches"] = sum(len(one.batches) for one in samples)
    found["rows"] = sum(batch.rows for one in samples for batch in one.batches)
    found["estimated"] = sorted({name for one in samples for name in one.estimated})
    found["receipts"] = sum(entry.receipt is not None for entry in entries)
    found["failure"] = str(gate.failure) if gate.failure else None
    print("FOUND", json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
