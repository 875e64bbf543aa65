"""A client of Spark Connect whose query is too slow for its load: run by `test_connect.py` in a process of its own."""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.control.journal import read_entries
from tidegate.domain import NotSupported

journal = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
policy = {
    "mode": "apply",
    "objective": {"latency_s": 8},
    "executors": {"max": 6},
    "interval_s": 0.5,
    "journal": {"path": journal},
}


@F.udf("long")
def slow(value):
    time.sleep(0.004)
    return value


with tidegate.attach(spark, policy) as gate:
    found = {"capabilities": {one.actuator: one.able for one in gate.capabilities()}, "mode": str(gate.policy.mode)}
    try:
        gate.start("own", lambda session, settings: None)
    except NotSupported as error:
        found["start"] = str(error)
    rows = spark.readStream.format("rate").option("rowsPerSecond", 700).option("numPartitions", 2).load()
    writer = rows.select(slow("value")).writeStream.format("noop").queryName("orders")
    query = writer.trigger(processingTime="1 second").start()
    wanted, deadline_s = set(), time.monotonic() + 120
    while not wanted and time.monotonic() < deadline_s:
        time.sleep(1)
        decisions = [entry.decision for entry in read_entries(journal) if entry.decision]
        wanted = {action.target for one in decisions for action in one.actions if action.kind == "scale-executors"}
    found["wanted"] = sorted(wanted)
    query.stop()
entries = list(read_entries(journal))
samples = [one for entry in entries if entry.observation for one in entry.observation.applications]
found["batches"] = sum(len(one.batches) for one in samples)
found["rows"] = sum(batch.rows for one in samples for batch in one.batches)
found["estimated"] = sorted(set().union(*(one.estimated for one in samples)))
found["receipts"] = sum(entry.receipt is not None for entry in entries)
found["failure"] = str(gate.failure) if gate.failure else None
print("FOUND", json.dumps(found))
spark.stop()
