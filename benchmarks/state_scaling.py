"""The effect of pool changes on a stateful query: how soon a new executor is used, and the cost of a retirement.

    python benchmarks/state_scaling.py [--rows-per-s N] [--keys N] [--rounds N]

A count by key over many keys, in batches of a second, on executors of two slots. The pool goes 1 → 2 → 1 in every
round, through the same adapter as under control: a new executor gets its share of the state, and a retiring one is
drained first. Prints for each round in which batch after its registration the new executor ran stateful tasks, and the
longest batch of the scale-down relative to the usual.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import tidegate
from tidegate.adapters.spark.attach import Gate
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.control.journal import read_entries
from tidegate.domain import ApplicationSample, BatchSample, Observation

_NAME = "counts"
_USUAL = 8
_PATIENCE_S = 120.0


def main() -> None:
    """Play the rounds and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows-per-s", type=int, default=2000)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    settings = {"spark.sql.shuffle.partitions": "4"}
    spark = embedded_session("state-scaling", 1, 2, slots=2, memory_mb=1024, settings=settings)
    settle_executors(spark, 2)  # Standalone starts both, one of them maybe late
    settle_executors(spark, 1)
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-scaling-") as folder:
            rounds = _play(spark, Path(folder), asked.rows_per_s, asked.keys, asked.rounds)
    finally:
        spark.stop()
    print(json.dumps({"rounds": rounds}, indent=2))


def _play(spark: SparkSession, folder: Path, rows_per_s: int, keys: int, rounds: int) -> list[dict[str, Any]]:
    policy = folder / "policy.yaml"
    journal = folder / "gate.db"

    def ask(executors: int) -> None:
        rule = {
            "interval_s": 0.5,
            "executors": {"min": executors, "max": executors},
            "guards": {"cool_down_up_s": 0, "cool_down_down_s": 0},
            "knobs": {"admission": False, "interval": False},
            "journal": {"path": str(journal)},
        }
        policy.write_text(json.dumps(rule))

    ask(1)
    with tidegate.attach(spark, policy) as gate:
        query = _start(spark, folder / "checkpoint", rows_per_s, keys)
        try:
            _await(lambda: len(_batches(gate)) >= 2 * _USUAL, "the first batches")
            return [_round(gate, ask) for _ in range(rounds)]
        finally:
            query.stop()


def _round(gate: Gate, ask: Callable[[int], None]) -> dict[str, Any]:
    ask(2)
    joined = _await(lambda: next((seen for seen in _seen(gate)[-1:] if len(seen.pool.executors) == 2), None), "it")
    new = max(joined.pool.executors, key=lambda executor: executor.since_s)
    useful = _await(lambda: _useful(gate, new.id, new.since_s), "state on the new executor")
    _await(lambda: len([one for one in _batches(gate) if one.started_s > useful[1]]) >= 2 * _USUAL, "usual batches")
    usual_s = median(batch.duration_s for batch in _batches(gate)[-_USUAL:])
    asked_s = time.time()
    ask(1)
    _await(lambda: len(_seen(gate)[-1].pool.executors) == 1, "the retirement")
    gone_s = time.time()
    _await(lambda: len([one for one in _batches(gate) if one.started_s > gone_s]) >= 3, "batches after it")
    down = [one for one in _batches(gate) if one.committed_s > asked_s and one.started_s < gone_s + 3.0]
    longest_s = max(batch.duration_s for batch in down)
    _await(lambda: len([one for one in _batches(gate) if one.started_s > gone_s]) >= _USUAL, "usual batches")
    return {
        "useful_in_batch": useful[0],
        "usual_s": round(usual_s, 2),
        "longest_down_s": round(longest_s, 2),
        "ratio_down": round(longest_s / usual_s, 2),
        "retired_after_s": round(gone_s - asked_s, 1),
    }


def _useful(gate: Gate, executor: str, since_s: float) -> tuple[int, float] | None:
    """The number of the batch, counted from the executor's registration, that first ran its state there."""
    after = [batch for batch in _batches(gate) if batch.started_s >= since_s]
    for number, batch in enumerate(after, start=1):
        if any(operator.stateful and executor in operator.executors for operator in batch.operators):
            return number, batch.committed_s
    return None


def _start(spark: SparkSession, checkpoint: Path, rows_per_s: int, keys: int) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", rows_per_s).option("numPartitions", 2).load()
    counted = rows.groupBy((F.col("value") * 7919 % keys).alias("key")).count()
    writer = counted.writeStream.format("noop").outputMode("update").queryName(_NAME)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="1 second").start()


def _seen(gate: Gate) -> list[Observation]:
    return [entry.observation for entry in read_entries(gate.journal.path) if entry.observation]


def _batches(gate: Gate) -> list[BatchSample]:
    samples: list[ApplicationSample] = [one for seen in _seen(gate) for one in seen.applications if one.name == _NAME]
    return [batch for sample in samples for batch in sample.batches if batch.rows]


def _await(condition: Callable[[], Any], what: str) -> Any:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise SystemExit(f"timed out after {_PATIENCE_S:.0f} s waiting for {what}")
        time.sleep(0.3)
    return found


if __name__ == "__main__":
    main()
