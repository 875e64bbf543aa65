"""A stateful count over a million keys goes from 4 to 16 to 8 partitions under load; every count is checked at the end.

    python benchmarks/rebalance.py --keys 1000000

The pause is the time from the last commit before a move to the first one after it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.topology import Topology
from tidegate.control.journal import read_entries, read_notes
from tidegate.domain import RebalanceReport, Targets
from tidegate.load import Burst
from tidegate.load.profile import profile_to_json

NAME = "keys"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keys", type=int, default=1_000_000)
    arguments.add_argument("--rate", type=float, default=1000, help="rows a second while the state moves")
    arguments.add_argument("--moves", type=int, nargs="+", default=[16, 8])
    options = arguments.parse_args()
    fill_s = 10.0
    load = Burst(base=options.rate, peak=options.keys / fill_s, start_s=0, duration_s=fill_s)
    settings = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    spark = embedded_session("rebalance", executors=1, most_executors=1, slots=4, memory_mb=2048, settings=settings)

    def build(session: SparkSession, asked: Settings) -> DataStreamWriter:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        source = session.readStream.format("tidegate").option("load", profile_to_json(load)).option("partitions", "4")
        rows = source.option("gate", asked.gate).option("rows_per_trigger", "250000").load()
        key = (F.col("index") % options.keys).alias("key")
        flow = Topology.source("rows", rows, settings=asked).stateful(
            "count", lambda found: found.groupBy(key).agg(F.count(F.lit(1)).alias("n"), F.sum("index").alias("indices"))
        )
        writer = flow.frame.writeStream.outputMode("update").format("noop")
        return writer.trigger(processingTime="1 second").option("checkpointLocation", asked.checkpoint)

    with tempfile.TemporaryDirectory() as folder:
        policy = {"mode": "off", "journal": {"path": f"{folder}/journal.db"}}
        with attach(spark, policy) as gate:
            query = gate.start(NAME, build, checkpoint=f"{folder}/checkpoint")
            wait(lambda: state_rows(gate) >= options.keys, gate, 500, "all keys to be there")
            moves = []
            for partitions in options.moves:
                wait(lambda: backlog(gate) == 0, gate, 300, "the backlog to be gone")
                done = len(reports(gate))
                before = Checkpoint(spark, query.settings.checkpoint).state_partitions()
                gate.cluster.converge(Targets(parallelism={NAME: {"count": partitions}}))
                wait(lambda done=done: len(reports(gate)) > done, gate, 300, "the move")
                report = reports(gate)[-1]
                moves.append({"from": before, "to": partitions, "done": report.done, "pause_s": report.pause_s})
                print(f"{before} → {partitions}: paused for {report.pause_s} s; {report.note}", file=sys.stderr)
            query.stop_at_boundary()
            gate.settle()
        steps = {f"{note.time_s:.2f}": note.event for note in read_notes(Path(f"{folder}/journal.db"))}
        result = {"keys": options.keys, "moves": moves, **checked(spark, query.settings.checkpoint, options.keys)}
    spark.stop()
    print(json.dumps({**result, "steps": steps}, indent=1))


def checked(spark: SparkSession, checkpoint: str, keys: int) -> dict[str, int]:
    """Every key against what the first n rows give: row i belongs to key i mod keys."""
    state = spark.read.format("statestore").load(checkpoint).selectExpr("key.*", "value.*").toDF("key", "n", "indices")
    rows = int(state.agg(F.sum("n")).collect()[0][0])
    due = F.lit(rows // keys) + F.when(F.col("key") < rows % keys, 1).otherwise(0)
    indices = F.col("key") * due + keys * due * (due - 1) / 2
    wrong = state.where((F.col("n") != due) | (F.col("indices") != indices)).count()
    return {"rows": rows, "keys_found": state.count(), "keys_wrong": wrong}


def newest(gate: Gate) -> list[int]:
    last = gate.runner.last
    seen = last.observation.applications if last is not None and last.observation is not None else ()
    return [batch.state_rows or 0 for sample in seen for batch in sample.batches]


def state_rows(gate: Gate) -> int:
    return max(newest(gate), default=0)


def backlog(gate: Gate) -> int:
    last = gate.runner.last
    seen = last.observation.applications if last is not None and last.observation is not None else ()
    waiting = [batch.backlog_rows for sample in seen for batch in sample.batches if batch.backlog_rows is not None]
    return waiting[-1] if waiting else 1


def reports(gate: Gate) -> list[RebalanceReport]:
    entries = read_entries(gate.journal.path)
    samples = (sample for entry in entries if entry.observation for sample in entry.observation.applications)
    return [sample.rebalance for sample in samples if sample.rebalance]


def wait(condition: object, gate: Gate, limit_s: float, what: str) -> None:
    deadline_s = time.monotonic() + limit_s
    assert callable(condition)
    while not condition():
        if gate.failure or time.monotonic() > deadline_s:
            raise SystemExit(f"timed out waiting for {what}: {gate.failure or 'too slow'}")
        time.sleep(1.0)


if __name__ == "__main__":
    main()
