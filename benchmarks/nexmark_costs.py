"""What Nexmark's queries cost on Spark: slot-seconds per row in each stage, and the fixed time of a batch.

    python benchmarks/nexmark_costs.py [--query q1 --query q3]

Every query runs as a stream under `attach` in mode off, on one warm executor with two slots. Its batches are short and
long in turn, so that the cost of a row can be told from that of a batch (`tidegate.twin.calibrate`). Events come from
files of text. The arena's queries (`lab/src/tidegate_lab/arena/queries.py`) have these costs in proportion to query 1,
because the arena's unit is a cluster, not this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.adapters.spark.settings import Settings
from tidegate.control.journal import read_entries
from tidegate.domain import BatchSample
from tidegate.load import Nexmark
from tidegate.twin.calibrate import fit_operator
from tidegate_lab.experiments.attached import check_alive
from tidegate_lab.workloads import nexmark

TASKS = 2
SHORT, LONG = 20_000, 200_000
"""Rows of a batch, from one file per task."""
_WARM = 3
_WARM_UP = "q5"
"""Runs once before anything is measured."""
_LIMIT_S = 180.0
_SPLIT = str(64 * 2**20)


@dataclass(frozen=True, slots=True)
class QueryCost:
    """Stages in Spark's order. Those that read the source come first."""

    name: str
    stages: tuple[tuple[str, float], ...]
    """Name, and slot-seconds per source row."""
    batch_s: float
    """Of a short batch, beside its tasks."""
    batches: int

    @property
    def row_s(self) -> float:
        return sum(row_s for _, row_s in self.stages)


def write_events(folder: Path, batches: int) -> list[int]:
    """Files for this many batches, short and long in turn, in the order of their names and times. Rows by batch."""
    events, first, rows = Nexmark(events_per_s=1000), 0, []
    for number in range(batches):
        each = (SHORT if number % 2 else LONG) // TASKS
        for part in range(TASKS):
            file = folder / f"{number:04d}-{part}.txt"
            file.write_text("\n".join(events.texts(first, first + each)) + "\n")
            time_s = 1e9 + number * TASKS + part
            os.utime(file, (time_s, time_s))
            first += each
        rows.append(each * TASKS)
    return rows


def measured(gate: Gate, name: str, events: Path, rows: list[int], folder: Path) -> QueryCost:
    """Run the query until it has read all files."""

    def build(spark: SparkSession, settings: Settings) -> DataStreamWriter:
        lines = spark.readStream.option("maxFilesPerTrigger", str(TASKS)).text(str(events))
        frame = nexmark.QUERIES[name](nexmark.parse(lines))
        writer = frame.writeStream.format("noop").outputMode("append").trigger(processingTime="200 milliseconds")
        return writer.option("checkpointLocation", settings.checkpoint)

    query = gate.start(name, build, folder / name)
    deadline_s = time.monotonic() + _LIMIT_S
    while len(batches := _batches(gate, name)) < len(rows) and time.monotonic() < deadline_s:
        check_alive(gate)
        time.sleep(0.5)
    query.stop_at_boundary()
    gate.forget(name)
    # Spark counts the rows of a source once for each time that the query uses it.
    return fitted(name, list(zip(rows, batches, strict=False))[_WARM:])


def fitted(name: str, seen: list[tuple[int, BatchSample]]) -> QueryCost:
    shape = tuple(operator.name for operator in seen[-1][1].operators)
    alike = [(rows, batch) for rows, batch in seen if tuple(one.name for one in batch.operators) == shape]
    stages = []
    for place, operator in enumerate(alike[-1][1].operators):
        fit = fit_operator(
            [float(rows) for rows, _ in alike],
            [batch.operators[place].busy_s for _, batch in alike],
            operator.parallelism,
        )
        stages.append((operator.name, fit.cost_s_per_row))
    short = [batch for rows, batch in alike if rows == SHORT]
    beside_s = [batch.duration_s - sum(one.busy_s / one.parallelism for one in batch.operators) for batch in short]
    return QueryCost(name, tuple(stages), median(beside_s), len(alike))


def _batches(gate: Gate, name: str) -> list[BatchSample]:
    return [
        batch
        for entry in read_entries(gate.journal.path)
        if entry.observation
        for sample in entry.observation.applications
        if sample.name == name
        for batch in sample.batches
        if batch.rows
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--query", action="append", choices=list(nexmark.QUERIES), help="repeatable; default: all")
    arguments.add_argument("--batches", type=int, default=16, help="per query")
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    settings = {
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.sql.files.maxPartitionBytes": _SPLIT,
        "spark.sql.files.openCostInBytes": _SPLIT,  # a task per file
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    found = []
    with tempfile.TemporaryDirectory(prefix="tidegate-nexmark-") as folder:
        events = Path(folder) / "events"
        events.mkdir()
        rows = write_events(events, options.batches)
        spark = embedded_session("nexmark-costs", 1, 1, slots=TASKS, settings=settings)
        try:
            settle_executors(spark, 1)
            policy = {"mode": "off", "interval_s": 0.5, "journal": {"path": f"{folder}/journal.db"}}
            with attach(spark, policy) as gate:
                measured(gate, _WARM_UP, events, rows, Path(folder) / "warm-up")
                for name in options.query or list(nexmark.QUERIES):
                    found.append(measured(gate, name, events, rows, Path(folder)))
                    print(found[-1], file=sys.stderr, flush=True)
        finally:
            spark.stop()
    if options.json:
        print(json.dumps([{"query": one.name, "stages": one.stages, "batch_s": one.batch_s} for one in found]))
        return
    print(f"{'query':6} {'stage':24} {'µs/row':>8} {'÷ ' + found[0].name:>8} {'batch':>8}")
    for one in found:
        for stage, row_s in one.stages:
            share = row_s / found[0].row_s
            print(f"{one.name:6} {stage:24} {row_s * 1e6:8.2f} {share:8.2f} {one.batch_s:6.2f} s")


if __name__ == "__main__":
    main()
