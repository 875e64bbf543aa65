"""Plain Kafka queries against a real broker: end offsets, lag, latency, limits, and the batch after an outage."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.conftest import (
    Produce,
    batches,
    input_rows,
    observations,
    samples,
    wait_for,
    wait_for_batches,
    wait_for_end,
)
from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.restartablequery import Build
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.topology import Topology
from tidegate.control.journal import read_entries
from tidegate.domain import SetAdmission, SetParallelism, Targets
from tidegate.plan.admission import FIRST_ROWS
from tidegate_lab.experiments.kafka_broker import Broker


def read(spark: SparkSession, address: str, topics: list[str], **options: object) -> DataFrame:
    """The keys in topics, each a source of its own, in a union."""
    given = {"kafka.bootstrap.servers": address, "startingOffsets": "earliest"}
    given |= {option: str(value) for option, value in options.items()}
    source = spark.readStream.format("kafka").options(**given)
    return reduce(DataFrame.union, [source.option("subscribe", topic).load().select("key") for topic in topics])


def count(rows: DataFrame, name: str, checkpoint: Path) -> StreamingQuery:
    return (
        rows.groupBy("key").count().writeStream.format("noop").outputMode("update").queryName(name)
        .option("checkpointLocation", str(checkpoint)).trigger(processingTime="300 milliseconds").start()
    )  # fmt: skip


def start(
    spark: SparkSession, address: str, topic: str, checkpoint: Path, name: str | None = None, **options: object
) -> StreamingQuery:
    return count(read(spark, address, [topic], **options), name or topic, checkpoint)


def test_rows_limits_lag_and_latency_of_a_plain_query(
    spark: SparkSession, gate: Gate, address: str, produce: Produce, tmp_path: Path
) -> None:
    began_s = time.time()
    produce("orders", 400)
    own = {"minOffsetsPerTrigger": 50, "maxTriggerDelay": "5s", "maxOffsetsPerTrigger": 400}
    query = start(spark, address, "orders", tmp_path / "c", **own)
    wait_for_batches(gate, "orders", 1)
    wait_for(lambda: samples(gate, "orders")[-1].arrival, "the broker's end offsets")
    gate.cluster.converge(Targets().after([SetAdmission("orders", 100)]))
    gate.cluster.limits.pause("orders", "test", 600.0)
    produce("orders", 600)
    lagging = wait_for(
        lambda: [one for one in samples(gate, "orders") if one.arrival and one.arrival.waiting_rows == 600],
        "lag by partition",
    )[-1]
    assert (lagging.partitions, lagging.lags[0].partition) == (4, "orders-0"), "the hot partition is named"
    assert lagging.arrival is not None
    assert lagging.arrival.arrived_rows == 1000
    assert lagging.arrival.retention_s == 7 * 86_400
    gate.cluster.limits.resume("orders", "test")
    wait_for(lambda: sum(input_rows(query)) == 1000, "all rows")
    assert max(input_rows(query)[1:]) <= 104, "a hundred rows a batch, rounded up by partition"
    produce("orders", 20)
    wait_for(lambda: sum(batch.rows for batch in batches(gate, "orders")) == 1020, "the user's longest delay")
    told = [batch for batch in batches(gate, "orders") if batch.rows]
    few = [(before, after) for before, after in pairwise(told) if after.rows < 50]
    assert few
    for before, after in few:
        assert after.committed_s - before.started_s > 4.9, "the user's minimum of 50 rows still holds"
    seen = [batch.latency for batch in told if batch.latency]
    assert seen
    assert all(0 <= latency.p50_s <= time.time() - began_s + 5 for latency in seen)
    gate.cluster.converge(Targets().after([SetAdmission("orders", 100_000)]))
    produce("orders", 1000)
    wait_for(lambda: sum(input_rows(query)) == 2020, "the rest")
    assert 300 <= max(input_rows(query)) <= 404, "the user's own limit of 400 rows is never widened"


def test_no_first_batch_after_an_outage_is_unbounded(
    spark: SparkSession, address: str, produce: Produce, tmp_path: Path
) -> None:
    """Starts on a large backlog while the control acts. In the attached session the limit is set in the query's own
    thread. Other sessions do not tell of a start: there a thread of Tidegate has to notice it in time, which nobody can
    promise on a busy machine, so nothing is asserted of them.

    Each query has a name of its own: of one that is known, control may have proven that a batch can be larger."""
    produce("outage", 60_000)
    policy = {"executors": {"max": 1}, "journal": {"path": str(tmp_path / "gate.db")}}

    def first_batch(session: SparkSession, name: str) -> int:
        query = start(session, address, "outage", tmp_path / name, name=name)
        wait_for(lambda: input_rows(query), "a first batch")
        query.stop()
        return input_rows(query)[0]

    with attach(spark, policy) as gate:
        assert max(first_batch(spark, f"told-{attempt}") for attempt in range(4)) <= FIRST_ROWS
    wait_for_end(gate)
    free = start(spark, address, "outage", tmp_path / "free")
    wait_for(lambda: input_rows(free), "a batch")
    assert input_rows(free)[0] == 60_000, "without control it takes everything at once"


def test_a_batch_that_is_being_planned_when_control_begins_is_limited(
    spark: SparkSession, broker: Broker, address: str, produce: Produce, tmp_path: Path
) -> None:
    """The broker does not answer while Tidegate is attached, so the query has asked without a limit before."""
    produce("planning", 60_000)
    with broker.frozen():
        query = start(spark, address, "planning", tmp_path / "checkpoint")
        planning = query._jsq.streamingQuery().awaitProgressLock()
        wait_for(planning.isLocked, "the first batch to be planned")
        gate = attach(spark, {"executors": {"max": 1}, "journal": {"path": str(tmp_path / "gate.db")}})
    try:
        wait_for(lambda: sum(input_rows(query)) == 60_000, "all rows")
        assert 0 < input_rows(query)[0] <= FIRST_ROWS
    finally:
        gate.stop()
        query.stop()
        wait_for_end(gate)


def test_arrivals_are_counted_in_the_middle_of_a_batch_and_progress_is_committed_to_a_group(
    spark: SparkSession, address: str, produce: Produce, tmp_path: Path
) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    produce("slow", 100)
    policy = {
        "mode": "recommend",
        "interval_s": 0.5,
        "applications": {"slow": {"consumer_group": "watched"}},
        "journal": {"path": str(tmp_path / "gate.db")},
    }
    go = tmp_path / "go"

    def held(key: str) -> str:
        while not go.exists():
            time.sleep(0.05)
        return key

    with attach(spark, policy) as gate:
        options = {"kafka.bootstrap.servers": address, "subscribe": "slow", "startingOffsets": "earliest"}
        rows = (
            spark.readStream.format("kafka").options(**options).load().select(F.udf(held)(F.col("key").cast("string")))
        )
        query = (
            rows.writeStream.format("noop").queryName("slow").option("checkpointLocation", str(tmp_path / "c")).start()
        )
        try:
            wait_for(lambda: samples(gate, "slow") and samples(gate, "slow")[-1].running_batch, "a batch under way")
            produce("slow", 300)
            seen = wait_for(
                lambda: [
                    one
                    for one in samples(gate, "slow")
                    if one.running_batch
                    and one.arrival
                    and one.arrival.arrived_rows == 400
                    and one.arrival.waiting_rows
                ],
                "rows counted while a batch runs",
            )[0]
        finally:
            go.touch()
        assert seen.arrival is not None
        assert seen.arrival.waiting_rows == 300
        wait_for(lambda: sum(input_rows(query)) == 400, "all rows")
        group = Consumer({"bootstrap.servers": address, "group.id": "watched"})
        partitions = [
            TopicPartition("slow", number) for number in group.list_topics("slow", 10).topics["slow"].partitions
        ]

        def committed() -> int:
            try:
                return sum(max(0, partition.offset) for partition in group.committed(partitions, 10))
            except KafkaException:  # a young broker still loads its groups
                return 0

        try:
            wait_for(lambda: committed() == 400, "the group's offsets")
        finally:
            group.close()


def test_a_query_with_several_sources_has_lag_and_latency(
    spark: SparkSession, gate: Gate, address: str, produce: Produce, tmp_path: Path
) -> None:
    """Five topics, because Scala's maps keep the order of four entries only, and the last one is read twice."""
    sizes = {f"many-{number}": 20 * (number + 1) for number in range(5)}
    for topic, rows in sizes.items():
        produce(topic, rows)
    query = count(read(spark, address, [*sizes, "many-4"]), "many", tmp_path / "c")
    wait_for_batches(gate, "many", 1)
    wait_for(lambda: samples(gate, "many")[-1].arrival, "the broker's end offsets")
    gate.cluster.limits.pause("many", "test", 600.0)
    first = sum(sizes.values()) + sizes["many-4"]
    wait_for(lambda: sum(input_rows(query)) == first, "the first rows")
    produce("many-1", 400)
    produce("many-4", 100)
    lagging = wait_for(
        lambda: [one for one in samples(gate, "many") if one.arrival and one.arrival.waiting_rows == 600],
        "the sum of all backlogs",
    )[-1]
    assert lagging.arrival is not None
    assert lagging.arrival.arrived_rows == first + 600
    assert lagging.arrival.oldest_s is not None
    assert 0 <= lagging.arrival.time_s - lagging.arrival.oldest_s < 60
    assert [(lag.partition, lag.rows) for lag in lagging.lags[:2]] == [("many-1-0", 300), ("many-4-0", 150)]
    assert lagging.partitions == 20
    gate.cluster.limits.resume("many", "test")
    wait_for(lambda: sum(batch.rows for batch in batches(gate, "many")) == first + 600, "all rows")
    last = [batch for batch in batches(gate, "many") if batch.rows][-1]
    assert last.latency is not None, "the rows of all sources are dated"
    assert 0 <= last.latency.p50_s <= last.latency.max_s < 120


@pytest.mark.parametrize("beside", ["nothing", "a topic that is kept for a week", "files"])
def test_the_gate_opens_before_the_topic_deletes_what_waits(
    spark: SparkSession, address: str, produce: Produce, tmp_path: Path, beside: str
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin, topic = AdminClient({"bootstrap.servers": address}), f"short-{beside.split()[-1]}"
    admin.create_topics([NewTopic(topic, 2, config={"retention.ms": "7200000"})])[topic].result(120)
    producer, old_ms = Producer({"bootstrap.servers": address}), round((time.time() - 6000) * 1000)
    for row in range(2 * FIRST_ROWS):
        producer.produce(topic, key=b"k", value=b"x", partition=row % 2, timestamp=old_ms)
        producer.poll(0)
    assert producer.flush(120) == 0
    topics = [topic]
    if "topic" in beside:
        produce("long", 100)
        topics.insert(0, "long")
    files = tmp_path / "files"
    files.mkdir()
    (files / "lines").write_text("a\n" * 10)
    policy = {"executors": {"max": 1}, "journal": {"path": str(tmp_path / "gate.db")}}
    with attach(spark, policy) as gate:
        rows = read(spark, address, topics, maxOffsetsPerTrigger=100)
        if beside == "files":
            rows = spark.readStream.text(str(files)).select(F.col("value").cast("binary").alias("key")).union(rows)
        count(rows, topic, tmp_path / "c")

        def told() -> list[str]:
            decisions = [entry.decision for entry in read_entries(gate.journal.path) if entry.decision]
            return [str(reason) for decision in decisions for reason in decision.reasons]

        wait_for(lambda: any("the source keeps rows for 7200 s: no limit" in text for text in told()), "no limit", 60.0)
        assert any(sample.admission_rows for sample in samples(gate, topic)), "there was one, and it was seen"


def test_rows_reach_kafka_and_files_exactly_once_while_state_and_executors_move(
    spark: SparkSession,
    gate: Gate,
    address: str,
    produce: Produce,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two stateful queries over one topic while rows come, every key of which is counted: a count into a topic, whose
    state is repartitioned twice, and distinct values into files, whose sink does not bear that."""
    # An executor that is killed in a batch makes its tasks run again, and Kafka's sink then writes rows twice.
    monkeypatch.setattr("tidegate.adapters.spark.executors._PATIENCE_S", 600.0)
    for topic in ("arrivals", "counts"):
        produce(topic, 0)
    options = {"kafka.bootstrap.servers": address, "subscribe": "arrivals", "startingOffsets": "earliest"}
    feed = Feed(address, "arrivals")

    def build(sink: Callable[[DataFrame], DataStreamWriter]) -> Build:
        def built(session: SparkSession, settings: Settings) -> DataStreamWriter:
            session.conf.set("spark.sql.shuffle.partitions", "2")
            rows = session.readStream.format("kafka").options(**options).load()
            writer = sink(rows.select(F.col("key").cast("string"), F.col("value").cast("string")))
            return writer.option("checkpointLocation", settings.checkpoint).trigger(**settings.trigger(0.3))

        return built

    def counted(rows: DataFrame) -> DataStreamWriter:
        counts = rows.groupBy("key").count().select("key", F.col("count").cast("string").alias("value"))
        broker = {"kafka.bootstrap.servers": address, "topic": "counts"}
        return counts.writeStream.format("kafka").options(**broker).outputMode("update")

    def distinct(rows: DataFrame) -> DataStreamWriter:
        once = Topology.source("rows", rows).stateful("once", lambda read: read.dropDuplicates(["value"])).frame
        return once.writeStream.format("json").option("path", str(tmp_path / "distinct"))

    queries = [
        gate.start(name, build(sink), checkpoint=tmp_path / name)
        for name, sink in (("counted", counted), ("distinct", distinct))
    ]
    feed.start()
    try:
        for partitions, executors in ((3, 2), (2, 1)):
            for name in ("counted", "distinct"):
                wait_for_batches(gate, name, 2)
            queries[0].rebalance(queries[0].settings.with_parallelism("state", partitions), partitions)
            receipt = gate.cluster.converge(Targets().after([SetParallelism("distinct", "once", partitions + 1)]))
            assert "file sink" in receipt.actions[0].note
            wait_for(partial(scaled, gate, executors), "executors")
    finally:
        feed.close()
    for query in queries:
        query.query.processAllAvailable()
        query.stop_at_boundary()
    told = [(row.key, int(row.value)) for row in read_topic(spark, address, "counts")]
    assert len(set(told)) == len(told), "no count is written twice"
    last: dict[str, int] = {}
    for key, count in told:
        assert count > last.get(key, 0)
        last[key] = count
    assert last == feed.sent_by_key
    values = [row.value for row in spark.read.json(str(tmp_path / "distinct")).collect()]
    assert sorted(values) == sorted(feed.values)


def scaled(gate: Gate, executors: int) -> bool:
    gate.cluster.converge(Targets(executors=executors))  # asked for again and again, as under control
    return len(observations(gate)[-1].pool.executors) == executors


def read_topic(spark: SparkSession, address: str, topic: str) -> list[Row]:
    """What is in a topic, in order of its offsets."""
    rows = spark.read.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", topic).load()
    return (
        rows.orderBy("partition", "offset").select(F.col("key").cast("string"), F.col("value").cast("string")).collect()
    )


class Feed(threading.Thread):
    """Fifty keys, and every value twice, until it is closed."""

    def __init__(self, address: str, topic: str) -> None:
        from confluent_kafka import Producer

        super().__init__(daemon=True)
        self._producer, self._topic = Producer({"bootstrap.servers": address}), topic
        self._over = threading.Event()
        self.sent_by_key: Counter[str] = Counter()
        self.values: set[str] = set()

    def run(self) -> None:
        for row in itertools.count():
            if row % 10 == 0 and self._over.wait(0.05):
                return
            key, value = f"k{row % 50}", f"v{row // 2}"
            self._producer.produce(self._topic, key=key, value=value)
            self.sent_by_key[key] += 1
            self.values.add(value)
            self._producer.poll(0)

    def close(self) -> None:
        self._over.set()
        self.join()
        assert self._producer.flush(120) == 0


def test_connections_to_the_broker_end_with_the_query(
    spark: SparkSession, gate: Gate, address: str, produce: Produce, tmp_path: Path
) -> None:
    def clients() -> set[str]:
        threads = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()  # type: ignore[union-attr]
        names = {str(thread.getName()) for thread in threads}
        return {name for name in names if name.startswith("kafka-admin-client-thread")}

    before = clients()
    produce("ending", 50)
    query = start(spark, address, "ending", tmp_path / "c")
    wait_for(lambda: samples(gate, "ending") and samples(gate, "ending")[-1].arrival, "the broker's end offsets")
    assert len(clients() - before) >= 2, "Spark's and Tidegate's"
    query.stop()
    wait_for(lambda: not clients() - before, "the end of all connections")
