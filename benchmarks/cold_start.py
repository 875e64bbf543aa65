"""What a new executor costs: from the request to its first useful batch, against plain Spark, in alternating runs.

    python benchmarks/cold_start.py [--rounds N]

The job is the same in both: rows through a Python function, an aggregate, batches of a second, on executors of two
slots. Plain Spark starts with its own settings, Tidegate's with those of `tidegate run`. When the job is warm, a second
executor is requested. Its first useful batch is the first one in which its slowest task of the first stage took no
longer than twice the usual. Counted are the seconds from the request to the end of that batch's tasks on the new
executor, and the processor seconds that the executor's processes, Python workers included, had used by then.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import request_executors, settle_executors
from tidegate.adapters.spark.warmup import offer_rehearsal

_SLOTS = 2
_ROWS_PER_S = 400
_ROW_S = 0.002
_WARM_BATCHES = 15
_USUAL = 10
_USEFUL = 2.0
_LIMIT_S = 90.0
_TICK_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Start:
    """One start of an executor."""

    registered_s: float
    useful_s: float
    """From the request to the end of the first useful batch's tasks."""
    cpu_s: float
    """Processor time of its processes by then."""
    slow_batches: int
    """Batches in which it was slow before."""
    usual_task_s: float
    longest_task_s: float
    """Of the tasks that it was slow in; 0 if there were none."""


def main() -> None:
    """Run the rounds and print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, list[Start]] = {"plain": [], "tidegate": []}
    for number in range(rounds):
        for kind, starts in found.items():
            starts.append(_in_a_process(kind))
            print(f"round {number + 1}, {kind}: {asdict(starts[-1])}", file=sys.stderr)
    document: dict[str, Any] = {
        kind: {key: round(median(getattr(one, key) for one in starts), 2) for key in Start.__slots__}
        for kind, starts in found.items()
    }
    for key in ("useful_s", "cpu_s"):
        ratios = [ours / plain for ours, plain in _pairs(found, key)]
        document[f"ratio_{key}"] = round(median(ratios), 2)
        document[f"range_{key}"] = [round(min(ratios), 2), round(max(ratios), 2)]
    print(json.dumps({**document, "rounds": rounds}, indent=2))


def _pairs(found: dict[str, list[Start]], key: str) -> list[tuple[float, float]]:
    return [
        (getattr(ours, key), getattr(plain, key)) for ours, plain in zip(found["tidegate"], found["plain"], strict=True)
    ]


def _in_a_process(kind: str) -> Start:
    """Every start has a driver of its own, so that none profits from an earlier one."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_start, (kind,))


def _start(kind: str) -> Start:
    with tempfile.TemporaryDirectory(prefix="tidegate-cold-") as folder:
        events = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": Path(folder).as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        }
        spark = _plain(events) if kind == "plain" else embedded_session("cold-start", 1, 2, _SLOTS, settings=events)
        try:
            settle_executors(spark, 2)  # Standalone starts both; none may be taken for the one that is requested
            settle_executors(spark, 1)
            if kind == "tidegate":
                offer_rehearsal(spark, _SLOTS)  # as control does when it begins
            return _measure(spark, Path(folder))
        finally:
            spark.stop()


def _plain(settings: dict[str, str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("cold-start").master(f"local-cluster[2,{_SLOTS},1024]")
    own = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.executor.memory": "1024m"}
    for key, value in {**own, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _measure(spark: SparkSession, folder: Path) -> Start:
    query = _job(spark, folder / "checkpoint")
    try:
        _await(lambda: query.lastProgress is not None and query.lastProgress["batchId"] >= _WARM_BATCHES)
        tasks = _tasks(folder)
        usual_s = median(task.took_s for task in tasks[-4 * _USUAL :])
        asked_s, known = time.time(), {task.executor for task in tasks}
        request_executors(spark.sparkContext, 2)
        joined = _await(
            lambda: next((one for one in _joined(folder) if one[0] not in known and one[1] > asked_s), None)
        )
        cpu: list[tuple[float, float]] = []
        batch = _await(lambda: _useful_batch(folder, joined[0], usual_s, cpu))
    finally:
        query.stop()
    here = [task for task in _tasks(folder) if task.executor == joined[0]]
    slow = [task for task in here if task.batch < batch]
    end_s = max(task.end_s for task in here if task.batch == batch)
    return Start(
        registered_s=round(joined[1] - asked_s, 2),
        useful_s=round(end_s - asked_s, 2),
        cpu_s=round(next((used for at_s, used in cpu if at_s >= end_s), cpu[-1][1]), 2),
        slow_batches=len({task.batch for task in slow}),
        usual_task_s=round(usual_s, 3),
        longest_task_s=round(max((task.took_s for task in slow), default=0.0), 2),
    )


def _job(spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    @F.udf("string")
    def shouted(text: str) -> str:
        time.sleep(_ROW_S)
        return text.upper()

    spark.conf.set("spark.sql.shuffle.partitions", "4")
    rows = spark.readStream.format("rate").option("rowsPerSecond", _ROWS_PER_S).option("numPartitions", 4).load()
    worked = rows.select((F.col("value") % 100).alias("key"), shouted(F.col("value").cast("string")).alias("text"))
    counted = worked.groupBy("key").agg(F.count("text").alias("count"))
    writer = counted.writeStream.format("noop").outputMode("update").trigger(processingTime="1 second")
    return writer.option("checkpointLocation", str(checkpoint)).start()


@dataclass(frozen=True, slots=True)
class _Task:
    """A finished task of a batch's first stage."""

    batch: int
    executor: str
    end_s: float
    took_s: float


def _events(folder: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    """From Spark's event log; the last line may be unfinished."""
    for log in sorted(folder.glob("*local*")) or sorted(folder.glob("app-*")):
        for line in log.read_text().splitlines():
            if line.endswith("}") and any(f'"{kind}"' in line[:80] for kind in kinds):
                yield json.loads(line)


def _tasks(folder: Path) -> list[_Task]:
    batches: dict[int, int] = {}
    found = []
    for event in _events(folder, "SparkListenerJobStart", "SparkListenerTaskEnd"):
        if event["Event"] == "SparkListenerJobStart":
            batch = event["Properties"].get("streaming.sql.batchId")
            if batch is not None:
                batches[min(event["Stage IDs"])] = int(batch)
        elif event["Stage ID"] in batches:
            info = event["Task Info"]
            took_s = (info["Finish Time"] - info["Launch Time"]) / 1000
            found.append(_Task(batches[event["Stage ID"]], info["Executor ID"], info["Finish Time"] / 1000, took_s))
    return found


def _joined(folder: Path) -> list[tuple[str, float]]:
    """Every executor and when it registered."""
    return [
        (event["Executor ID"], event["Timestamp"] / 1000) for event in _events(folder, "SparkListenerExecutorAdded")
    ]


def _useful_batch(folder: Path, executor: str, usual_s: float, cpu: list[tuple[float, float]]) -> int | None:
    """The first batch in which the executor was as fast as usual. Its processor time is noted at every look."""
    cpu.append((time.time(), _cpu_s(executor)))
    slowest: dict[int, float] = {}
    for task in _tasks(folder):
        if task.executor == executor:
            slowest[task.batch] = max(slowest.get(task.batch, 0.0), task.took_s)
    return next((batch for batch, took_s in sorted(slowest.items()) if took_s <= _USEFUL * usual_s), None)


def _cpu_s(executor: str) -> float:
    """Processor time of the executor's JVM and of everything that it has started."""
    seen: dict[int, tuple[int, float]] = {}
    root = None
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            after = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has just ended
        seen[int(entry.name)] = int(after[1]), sum(map(int, after[11:15])) / _TICK_S
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in command and (
            command[command.index(b"--executor-id") + 1] == executor.encode()
        ):
            root = int(entry.name)
    if root is None:
        return 0.0
    family = {root}
    while more := {one for one, (parent, _) in seen.items() if parent in family} - family:
        family |= more
    return sum(seen[one][1] for one in family)


def _await(condition: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + _LIMIT_S
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise SystemExit(f"timed out after {_LIMIT_S:.0f} s")
        time.sleep(0.2)
    return found


if __name__ == "__main__":
    main()
