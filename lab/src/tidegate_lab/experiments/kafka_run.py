"""A plain Kafka job through a burst and an outage: without limits, with a fixed limit, and with Tidegate attached.

The fixed limit is found as a user would find it: it is the best of several on the same burst, rehearsed without the
outage. The other limits play the whole course too, for a comparison with hindsight.

The job is the same in all runs: Kafka → look-up → count by key → a transactional sink. The producer is open-loop, so
rows that a run cannot process keep ageing in the topic. Latency is exact: a row's age when the sink commits its batch.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tidegate.adapters.spark.attach import attach
from tidegate.adapters.spark.embedded import local_session
from tidegate.domain import EnvironmentUnfit
from tidegate_lab.experiments.kafka_broker import VERSION, Broker, connector_jars, create_topic

Told = Callable[[str, float], None]
_KEYS = 500
_LOOKUP_S = 0.01
_DRAIN_S = 240.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, second by second."""

    objective_s: float = 80.0
    """Longer than the outage, so rows that arrived during it can still meet the objective if batches stay small."""
    slots: int = 4
    partitions: int = 8
    rows_per_s: float = 50.0
    burst: float = 10.0
    """Times the usual rate: 500 rows/s, where all slots together process 400. A burst that they can process leaves
    nothing to win beyond the right fixed limit."""
    before_s: float = 20.0
    burst_s: float = 30.0
    between_s: float = -20.0
    """From the end of the burst to the outage; negative if the job stops during the burst."""
    stop_s: float = 60.0
    after_s: float = 30.0
    limits_s: tuple[float, ...] = (2.0, 5.0, 15.0)
    """Fixed limits to try, as the seconds in which all slots could process that many rows."""

    @property
    def end_s(self) -> float:
        return self.before_s + self.burst_s + self.between_s + self.stop_s + self.after_s

    @property
    def limits(self) -> list[int]:
        """The fixed limits in rows."""
        return [round(limit_s * self.slots / _LOOKUP_S) for limit_s in self.limits_s]

    def rehearsal(self) -> Plan:
        """The same burst without the outage, which nobody can foresee."""
        return replace(self, stop_s=0.0)

    def rows_by(self, time_s: float) -> int:
        """Rows that are due by a time of the run."""
        bursting_s = min(max(time_s - self.before_s, 0.0), self.burst_s)
        return int(self.rows_per_s * (max(time_s, 0.0) + (self.burst - 1.0) * bursting_s))


PLANS = {
    "full": Plan(),
    "quick": Plan(objective_s=55, before_s=8, burst_s=25, between_s=-17, stop_s=40, after_s=5, limits_s=(5.0,)),
}


@dataclass(slots=True)
class Produced:
    """The rows in the topic."""

    rows: int = 0
    arrived_s: dict[int, dict[int, float]] = field(default_factory=dict)
    """By partition and offset."""

    def expected(self) -> dict[str, int]:
        """Rows of each key."""
        return {str(key): len(range(key, self.rows, _KEYS)) for key in range(min(_KEYS, self.rows))}


class Feed(threading.Thread):
    """Produces rows on time, whether or not they are read, and records when each arrived."""

    def __init__(self, address: str, topic: str, plan: Plan) -> None:
        super().__init__(name="feed", daemon=True)
        try:
            from confluent_kafka import Producer
        except ModuleNotFoundError:
            raise EnvironmentUnfit(
                "reproduce kafka produces with confluent-kafka: pip install confluent-kafka"
            ) from None
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "enable.idempotence": True})
        self._topic, self._plan = topic, plan
        self.began_s = 0.0
        self.sent = Produced()

    def run(self) -> None:
        self.began_s = time.time()
        while (at_s := time.time() - self.began_s) < self._plan.end_s:
            due = self._plan.rows_by(at_s)
            while self.sent.rows < due:
                key = f"{self.sent.rows % _KEYS}".encode()
                self._producer.produce(self._topic, key=key, value=b"x" * 100, on_delivery=self._arrived)
                self.sent.rows += 1
            self._producer.poll(0.02)
        self._producer.flush()

    def _arrived(self, error: Any, message: Any) -> None:
        if error is None:
            self.sent.arrived_s.setdefault(message.partition(), {})[message.offset()] = message.timestamp()[1] / 1000


class Sink:
    """Running counts by key, and the committed batches. A repeated batch changes nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as database:
            database.execute("CREATE TABLE counts (key TEXT PRIMARY KEY, count INTEGER)")
            database.execute("CREATE TABLE batches (id INTEGER PRIMARY KEY, committed_s REAL)")

    def write(self, frame: DataFrame, batch_id: int) -> None:
        rows = [(row["key"], row["count"]) for row in frame.collect()]
        with self._open() as database:
            if database.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
                return
            database.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", rows)
            database.execute("INSERT INTO batches VALUES (?, ?)", (batch_id, time.time()))

    def counts(self) -> dict[str, int]:
        with self._open() as database:
            return dict(database.execute("SELECT key, count FROM counts"))

    def committed_s(self) -> dict[int, float]:
        with self._open() as database:
            return dict(database.execute("SELECT id, committed_s FROM batches"))

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)


@dataclass(slots=True)
class Run:
    """The result of one run."""

    late: int
    p99_s: float
    largest_batch_rows: int
    largest_batch_s: float
    rows_in: int
    rows_lost: int
    rows_doubled: int
    restarts: int


@dataclass(frozen=True, slots=True)
class Found:
    """What the command prints as JSON, and how every fixed limit did, by rows."""

    document: dict[str, Any]
    limit: int
    """The one that was found in the rehearsal."""
    rehearsed: dict[int, Run]
    """Empty if there was one limit only."""
    whole: dict[int, Run]
    """Through burst and outage."""


def run_all(plan: Plan, folder: Path, told: Told = lambda name, at_s: None) -> Found:
    """Run everything, one run after another, on one broker and one Spark session."""
    folder.mkdir(parents=True, exist_ok=True)
    jars = {"spark.jars": ",".join(connector_jars()), "spark.sql.shuffle.partitions": str(plan.slots)}
    with Broker(folder / "broker") as broker:
        spark = local_session("tidegate-kafka", plan.slots, 1024, jars)
        try:
            return _runs(_Course(spark, broker.address, plan, folder, told))
        finally:
            spark.stop()


@dataclass(frozen=True, slots=True)
class _Course:
    spark: SparkSession
    address: str
    plan: Plan
    folder: Path
    told: Told


def _runs(course: _Course) -> Found:
    plan = course.plan
    warm = Plan(before_s=15, burst_s=0, between_s=0, stop_s=0, after_s=0, rows_per_s=2 * plan.rows_per_s)
    _play(course, "warm-up", warm)
    rehearsed: dict[int, Run] = {}
    if len(plan.limits) > 1:
        rehearsed = {one: _play(course, f"rehearsal-{one}", plan.rehearsal(), one) for one in plan.limits}
    limit = best_limit(rehearsed) if rehearsed else plan.limits[0]
    plain = _play(course, "plain", plan)
    whole = {one: _play(course, f"limit-{one}", plan, one) for one in plan.limits}
    controlled = _play(course, "tidegate", plan, controlled=True)
    runs = {"plain": plain, "plain-limited": whole[limit], "tidegate": controlled}
    document = {
        "spark": course.spark.version,
        "broker": VERSION,
        "objective_s": plan.objective_s,
        "runs": {name: asdict(run) for name, run in runs.items()},
    }
    return Found(document, limit, rehearsed, whole)


def best_limit(rehearsed: dict[int, Run]) -> int:
    """Return the limit with the fewest rows over the objective, then the lowest p99."""
    return min(rehearsed, key=lambda limit: (rehearsed[limit].late, rehearsed[limit].p99_s))


def _play(course: _Course, name: str, plan: Plan, limit: int | None = None, controlled: bool = False) -> Run:
    """Run once with a separate topic, checkpoint and sink."""
    folder = course.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    topic = f"{name}-{int(time.time())}"
    create_topic(course.address, topic, plan.partitions)
    feed, sink = Feed(course.address, topic, plan), Sink(folder / f"{topic}.db")
    checkpoint = folder / topic

    def start() -> StreamingQuery:
        return _query(course, topic, name, sink, checkpoint, limit)

    gate = None
    if controlled:
        policy = {
            "objective": {"latency_s": plan.objective_s},
            "journal": {"path": str(folder / f"{topic}.journal.db")},
        }
        gate = attach(course.spark, policy)
    query = start()
    feed.start()
    runs, stop_at_s = 1, plan.before_s + plan.burst_s + plan.between_s
    stopped, restarted_s = plan.stop_s == 0, 0.0
    seen: set[str] = {str(query.runId)}
    while feed.is_alive():
        at_s = time.time() - (feed.began_s or time.time())
        course.told(name, at_s)
        if not stopped and at_s >= stop_at_s:
            query.stop()
            while time.time() - feed.began_s < stop_at_s + plan.stop_s:
                time.sleep(0.1)
            query, stopped, restarted_s = start(), True, time.time()
            runs += 1
        seen.add(str(query.runId))
        time.sleep(0.2)
    _await_all(query, feed, sink)
    query.stop()
    if gate is not None:
        gate.stop()
    return judge(plan, feed.sent, sink, checkpoint, restarted_s, len(seen) - runs)


def _query(course: _Course, topic: str, name: str, sink: Sink, checkpoint: Path, limit: int | None) -> StreamingQuery:
    """The job, as a user would write it."""

    @F.udf("string")
    def looked_up(key: str) -> str:
        time.sleep(_LOOKUP_S)
        return key

    options = {"kafka.bootstrap.servers": course.address, "subscribe": topic, "startingOffsets": "earliest"}
    if limit is not None:
        options["maxOffsetsPerTrigger"] = str(limit)
    rows = course.spark.readStream.format("kafka").options(**options).load()
    keys = rows.select(looked_up(F.col("key").cast("string")).alias("key"))
    return (
        keys.groupBy("key").count()
        .writeStream.outputMode("update").foreachBatch(sink.write).queryName(name)
        .option("checkpointLocation", str(checkpoint)).trigger(processingTime="1 second").start()
    )  # fmt: skip


def _await_all(query: StreamingQuery, feed: Feed, sink: Sink) -> None:
    deadline_s = time.monotonic() + _DRAIN_S
    while sum(sink.counts().values()) < feed.sent.rows and query.isActive and time.monotonic() < deadline_s:
        time.sleep(0.2)


def judge(plan: Plan, sent: Produced, sink: Sink, checkpoint: Path, restarted_s: float, restarts: int) -> Run:
    """Compute every row's latency, from its timestamp in the topic to the commit of its batch, and check for lost
    rows."""
    committed_s, latencies = sink.committed_s(), []
    before: dict[int, int] = {}
    rows, seconds = [], []
    for batch in sorted(committed_s):
        log = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
        planned_s = json.loads(log[1])["batchTimestampMs"] / 1000
        ends = {int(partition): end for parts in json.loads(log[-1]).values() for partition, end in parts.items()}
        size = 0
        for partition, end in ends.items():
            for offset in range(before.get(partition, 0), end):
                arrived_s = sent.arrived_s.get(partition, {}).get(offset)
                if arrived_s is not None:
                    latencies.append(committed_s[batch] - arrived_s)
                    size += 1
        before |= ends
        rows.append(size)
        if planned_s < restarted_s < committed_s[batch]:
            planned_s = restarted_s  # interrupted by the stop and repeated
        seconds.append(committed_s[batch] - planned_s)
    expected, counts = sent.expected(), sink.counts()
    lost = sum(max(0, count - counts.get(key, 0)) for key, count in expected.items())
    doubled = sum(max(0, count - expected.get(key, 0)) for key, count in counts.items())
    ages = np.array(latencies or [0.0])
    return Run(
        late=int((ages > plan.objective_s).sum()),
        p99_s=round(float(np.quantile(ages, 0.99)), 2),
        largest_batch_rows=max(rows, default=0),
        largest_batch_s=round(max(seconds, default=0.0), 2),
        rows_in=sent.rows,
        rows_lost=lost,
        rows_doubled=doubled,
        restarts=restarts,
    )
