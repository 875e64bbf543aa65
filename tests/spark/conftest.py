"""One embedded cluster for all Spark tests: two executors of two slots, the UI off; and one Kafka broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executors import settle_executors
from tidegate.control.journal import read_entries
from tidegate.domain import ApplicationSample, BatchSample, Observation, RebalanceReport
from tidegate_lab.experiments import kafka_broker

HERE = Path(__file__).parent
Produce = Callable[[str, int], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {"spark.sql.shuffle.partitions": "2"}
    if not kafka_broker.available():
        settings["spark.jars"] = ",".join(kafka_broker.connector_jars())
    session = embedded_session("tidegate-tests", 1, most_executors=2, slots=2, memory_mb=1024, settings=settings)
    settle_executors(session, 2)  # both start, one maybe much later: nobody may take it for one that was asked for
    settle_executors(session, 1)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that uses the shared session leaves it no queries and no settings."""
    if "spark" not in request.fixturenames:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    before = session.conf.getAll
    yield
    for query in session.streams.active:
        query.stop()
    after = session.conf.getAll
    for key in filter(session.conf.isModifiable, after.keys() - before.keys()):
        session.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            session.conf.set(key, value)


@pytest.fixture
def gate(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Watches only: the tests turn the knobs themselves, and nobody renews what they have asked for."""
    monkeypatch.setattr("tidegate.adapters.spark.limits.LEASE_S", 600.0)
    monkeypatch.setattr("tidegate.adapters.spark.applications._STAGE_PATIENCE", 20)  # a busy driver tells stages late
    with attach(spark, {"mode": "off", "interval_s": 0.5, "journal": {"path": str(tmp_path / "gate.db")}}) as attached:
        yield attached
    wait_for_end(attached)
    for query in attached.queries():
        query.query.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_broker.Broker]:
    """A real broker, while there are tests that want it."""
    missing = kafka_broker.available()
    if missing:
        pytest.skip(missing)
    pytest.importorskip("confluent_kafka")
    with kafka_broker.Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="session")
def address(broker: kafka_broker.Broker) -> str:
    return broker.address


@pytest.fixture
def produce(address: str) -> Produce:
    """Rows into a topic of four partitions, three quarters of them into the first."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin, producer, known = (
        AdminClient({"bootstrap.servers": address}),
        Producer({"bootstrap.servers": address}),
        set(),
    )

    def into(topic: str, rows: int) -> None:
        if topic not in known:
            admin.create_topics([NewTopic(topic, 4)])[topic].result(120)
            known.add(topic)
        for row in range(rows):
            producer.produce(topic, key=str(row % 50).encode(), value=b"x", partition=0 if row % 4 else row % 3 + 1)
            if row % 1000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0

    return into


def input_rows(query: StreamingQuery) -> list[int]:
    """Rows of each batch that had any."""
    return [report["numInputRows"] for report in query.recentProgress if report["numInputRows"]]


def wait_for(condition: Callable[[], Any], what: str, limit_s: float = 300.0) -> Any:
    """Poll until the condition gives something, or fail saying what was waited for."""
    deadline_s = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for {what}")
        time.sleep(0.2)  # most conditions read a journal, which takes the job's CPU
    return found


def wait_for_end(gate: Gate) -> None:
    """A gate that was stopped waits for its control only for a while."""
    wait_for(lambda: not gate.running, "the end of control")


def observations(gate: Gate) -> list[Observation]:
    return [entry.observation for entry in read_entries(gate.journal.path) if entry.observation]


def samples(gate: Gate, name: str) -> list[ApplicationSample]:
    return [sample for seen in observations(gate) for sample in seen.applications if sample.name == name]


def batches(gate: Gate, name: str) -> list[BatchSample]:
    return [batch for sample in samples(gate, name) for batch in sample.batches]


def wait_for_batches(gate: Gate, name: str, count: int, limit_s: float = 300.0) -> list[BatchSample]:
    """At least so many batches with rows."""
    found: list[BatchSample] = wait_for(
        lambda: (seen := [batch for batch in batches(gate, name) if batch.rows]) and len(seen) >= count and seen,
        f"{count} batches of {name}",
        limit_s,
    )
    return found


def committed_rows(spark: SparkSession, checkpoint: str) -> int:
    """Rows of the one source, ours, that the query has committed."""
    committed = Checkpoint(spark, checkpoint).position().committed
    return int(json.loads((Path(checkpoint) / f"offsets/{committed}").read_text().splitlines()[-1])["row"])


def told_rows(spark: SparkSession, gate: Gate, name: str) -> int:
    """Rows of a query that was stopped, once its last report has come: all that it has committed."""
    query = next(query for query in gate.queries() if query.name == name)
    rows = committed_rows(spark, query.settings.checkpoint)
    told = wait_for(
        lambda: (told := sum(batch.rows for batch in batches(gate, name))) >= rows and told, f"{rows} rows of {name}"
    )
    assert told == rows
    return rows


def rebalances(gate: Gate, name: str) -> list[RebalanceReport]:
    """Reports of the rebalances that have ended."""
    return [sample.rebalance for sample in samples(gate, name) if sample.rebalance]
