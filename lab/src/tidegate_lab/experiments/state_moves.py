"""State partitions are moved at random under load while executors are killed: does the state stay correct?

Two queries read the same files, one file a batch, as fast as they can: a windowed count that evicts old windows, and a
join of two streams, which has several stores per partition. Random partitions are constantly moved to random
executors, and executors are killed in between. Then twins of both queries read the same batches on the same cluster
undisturbed. A digest over every key and value of the state must be equal after the same batch.

Four variants, with and without changelog checkpoints and compaction at commit; maintenance runs every second.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.cluster import SparkCluster
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.adapters.spark.statedigest import StateDigest, state_digests
from tidegate.domain import EnvironmentUnfit, MoveState, Observation, Targets
from tidegate.domain.policy import Policy

EXECUTORS, SLOTS, PARTITIONS = 3, 2, 8
ROWS_PER_FILE = 200
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_COMPACTION = "spark.sql.streaming.stateStore.rocksdb.compactOnCommit"
SETTINGS = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.minBatchesToRetain": "1000",
}
_SCHEMA = "key LONG, other LONG, value LONG, at TIMESTAMP"
_PATIENCE_S = 240.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of the experiment."""

    moves: int = 500
    """Total over all variants."""
    kills: int = 2
    """In each variant."""
    variants: tuple[tuple[bool, bool], ...] = tuple(product((True, False), (True, False)))
    """Changelog checkpoints, compaction at commit."""
    queries: tuple[str, ...] = ("counts", "pairs")
    files: int = 120
    seed: int = 1


@dataclass(slots=True)
class Variant:
    """The result of one variant."""

    changelog: bool
    compaction: bool
    moves: int = 0
    """Moves that could be evaluated, because their executor lived long enough."""
    in_place_soon: int = 0
    """In place within two batches."""
    kills: int = 0
    batches: dict[str, int] = field(default_factory=dict)
    state_rows: dict[str, int] = field(default_factory=dict)
    equal: dict[str, bool] = field(default_factory=dict)


def start_cluster() -> SparkSession:
    """Start three executors, any of which may be killed."""
    settings = {**SETTINGS, "spark.task.maxFailures": "10"}
    spark = embedded_session("state-moves", EXECUTORS, EXECUTORS, SLOTS, memory_mb=768, settings=settings)
    settle_executors(spark, EXECUTORS)
    return spark


def run(
    plan: Plan, told: Callable[[int, int, str], None] = lambda *place: None, spark: SparkSession | None = None
) -> dict[str, Any]:
    """Run every variant in turn. `told` receives the progress. The settings of a given session are restored
    afterwards."""
    session = spark or start_cluster()
    before = {key: session.conf.get(key, None) for key in (*SETTINGS, _CHANGELOG, _COMPACTION)}
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-state-") as folder:
            write_files(Path(folder) / "rows", plan.files, plan.seed)
            done = []
            for number, (changelog, compaction) in enumerate(plan.variants):
                told(number, len(plan.variants), f"changelog {changelog}, compaction {compaction}")
                done.append(_variant(session, Path(folder), plan, Variant(changelog, compaction), number))
    finally:
        for key, known in before.items():
            session.conf.unset(key) if known is None else session.conf.set(key, known)
        if spark is None:
            session.stop()
    moves, soon = sum(one.moves for one in done), sum(one.in_place_soon for one in done)
    return {
        "moves": moves,
        "in_place_within_two_batches": soon / moves if moves else None,
        "kills": sum(one.kills for one in done),
        "digests_equal": all(all(one.equal.values()) for one in done),
        "variants": [asdict(one) for one in done],
    }


def write_files(folder: Path, files: int, seed: int) -> None:
    """Rows with random keys, a second of event time per file; the order of the files is that of their times."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    for number in range(files):
        rows = [
            {
                "key": draw.randrange(400),
                "other": draw.randrange(40),
                "value": draw.randrange(1_000_000),
                "at": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.{draw.randrange(1000):03}Z",
            }
            for _ in range(ROWS_PER_FILE)
        ]
        path = folder / f"{number:05}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def counts(spark: SparkSession, folder: Path) -> DataFrame:
    """One operator, one store: windows are evicted as the watermark passes them."""
    rows = _rows(spark, folder).withWatermark("at", "20 seconds")
    return rows.groupBy(F.window("at", "5 seconds"), "key").agg(F.count(F.lit(1)).alias("n"), F.sum("value").alias("v"))


def pairs(spark: SparkSession, folder: Path) -> DataFrame:
    """A join: several stores per partition, rows leave both sides as the watermark passes them."""
    left = _rows(spark, folder).withWatermark("at", "4 seconds").where("other < 8").alias("l")
    right = _rows(spark, folder).withWatermark("at", "4 seconds").where("other >= 32").alias("r")
    near = "l.key = r.key AND r.at BETWEEN l.at - INTERVAL 2 SECONDS AND l.at + INTERVAL 2 SECONDS"
    return left.join(right, F.expr(near)).select("l.key", "l.value", F.col("r.value").alias("beside"))


QUERIES: Mapping[str, tuple[Callable[[SparkSession, Path], DataFrame], str]] = {
    "counts": (counts, "update"),
    "pairs": (pairs, "append"),
}


def _rows(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "rows"))


def _start(spark: SparkSession, folder: Path, name: str, checkpoint: Path, moved: bool) -> StreamingQuery:
    build, mode = QUERIES[name]
    writer = build(spark, folder).writeStream.format("noop").outputMode(mode).queryName(checkpoint.name)
    trigger: dict[str, Any] = {"processingTime": "0 seconds"} if moved else {"availableNow": True}
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def _variant(spark: SparkSession, folder: Path, plan: Plan, variant: Variant, number: int) -> Variant:
    spark.conf.set(_CHANGELOG, str(variant.changelog).lower())
    spark.conf.set(_COMPACTION, str(variant.compaction).lower())
    where = {name: folder / f"{name}-{number}" for name in plan.queries}
    cluster = SparkCluster(spark, Policy())
    queries = [_start(spark, folder, name, path, moved=True) for name, path in where.items()]
    mover = Mover(cluster, random.Random(plan.seed * 1000 + number), [path.name for path in where.values()])
    try:
        _move_about(spark, mover, queries, variant, plan)
    finally:
        for query in queries:
            query.stop()
        cluster.close()
    _compare(spark, folder, where, variant)
    return variant


def _compare(spark: SparkSession, folder: Path, where: Mapping[str, Path], variant: Variant) -> None:
    """Let the twins read the same batches, and compare."""
    last = {name: Checkpoint(spark, str(path)).position().committed for name, path in where.items()}
    twins = {name: folder / f"{path.name}-twin" for name, path in where.items()}
    reading = {name: _start(spark, folder, name, twin, moved=False) for name, twin in twins.items()}
    while reading:
        for name, twin in list(reading.items()):
            if not twin.isActive or Checkpoint(spark, str(twins[name])).position().committed >= last[name]:
                reading.pop(name).stop()
        time.sleep(_LOOK_S)
    for name, path in where.items():
        found, due = (_digest(spark, checkpoint, last[name]) for checkpoint in (path, twins[name]))
        variant.batches[name], variant.state_rows[name] = last[name] + 1, due.rows
        variant.equal[name] = found == due and due.rows > 0


def _digest(spark: SparkSession, checkpoint: Path, batch: int) -> StateDigest:
    (digest,) = state_digests(spark, str(checkpoint), (batch,))
    return digest


def _move_about(
    spark: SparkSession, mover: Mover, queries: Sequence[StreamingQuery], variant: Variant, plan: Plan
) -> None:
    wanted = -(-plan.moves // len(plan.variants))
    kill_at = [round(wanted * (kill + 1) / (plan.kills + 1)) for kill in range(plan.kills)]
    deadline_s = time.monotonic() + _PATIENCE_S
    while mover.judged < wanted:
        if (failure := next((query.exception() for query in queries if query.exception()), None)) is not None:
            raise failure
        if time.monotonic() > deadline_s or not all(query.isActive for query in queries):
            raise EnvironmentUnfit(
                f"{mover.judged} of {wanted} moves after {_PATIENCE_S:.0f} s: the machine is too busy"
            )
        mover.step()
        if variant.kills < len(kill_at) and mover.judged >= kill_at[variant.kills]:
            variant.kills += kill_executor(spark, mover.draw)
        time.sleep(_LOOK_S)
    variant.moves, variant.in_place_soon = mover.judged, mover.in_place_soon


@dataclass(slots=True)
class _UnderWay:
    executor: str
    asked_s: float
    batches: int = 0


class Mover:
    """Sends random partitions to random executors, a new one as soon as the last is in place."""

    def __init__(self, cluster: SparkCluster, draw: random.Random, names: Sequence[str]) -> None:
        self._cluster = cluster
        self._names = tuple(names)
        self._targets = Targets()
        self._under_way: dict[tuple[str, int], _UnderWay] = {}
        self.draw = draw
        self.judged = 0
        self.in_place_soon = 0

    def step(self) -> None:
        seen = self._cluster.observe()
        there = [executor.id for executor in seen.pool.executors]
        self._judge(seen, there)
        actions = []
        for sample in seen.applications:
            if sample.name not in self._names or not all(sample.state_places) or len(there) < 2:
                continue
            for partition, place in enumerate(sample.state_places):
                if (sample.name, partition) not in self._under_way and self.draw.random() < 0.9:
                    executor = self.draw.choice([one for one in there if one != place])
                    actions.append(MoveState(sample.name, partition, executor))
                    self._under_way[sample.name, partition] = _UnderWay(executor, seen.time_s)
        self._targets = self._targets.after(actions)
        receipt = self._cluster.converge(self._targets)
        refused = [answer.action for answer in receipt.actions if answer.outcome in {"refused", "failed"}]
        self._targets = self._targets.without(refused)

    def _judge(self, seen: Observation, there: Sequence[str]) -> None:
        samples = {sample.name: sample for sample in seen.applications}
        for key, move in list(self._under_way.items()):
            name, partition = key
            if name not in samples or move.executor not in there:
                del self._under_way[key]  # a move to an executor that died does not count as a failure
                continue
            places = samples[name].state_places
            move.batches += sum(batch.started_s >= move.asked_s for batch in samples[name].batches)
            arrived = partition < len(places) and places[partition] == move.executor
            if move.batches and (arrived or move.batches > 5):
                del self._under_way[key]
                self.judged += 1
                self.in_place_soon += arrived and move.batches <= 2


def kill_executor(spark: SparkSession, draw: random.Random) -> int:
    """Kill one executor process of an embedded cluster without warning. Returns 0 if none was found."""
    application = spark.sparkContext.applicationId
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "--executor-id" in words and application in words:
            found.append(int(folder.name))
    if found:
        os.kill(draw.choice(sorted(found)), signal.SIGKILL)
    return min(1, len(found))
