"""What a client of Spark Connect shows of its queries. The session and its queries are stand-ins."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.adapters.spark.connect import ConnectCluster
from tidegate.domain import ScaleExecutors, Targets

BEGAN_S = 1_790_000_000.0
SETTINGS = {"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "4"}


def report(run: str, batch: int, started_s: float) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(started_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    durations = {"triggerExecution": 500, "addBatch": 400}
    found = {"id": "q", "runId": run, "batchId": batch, "timestamp": stamp, "numInputRows": 100}
    return {**found, "durationMs": durations, "sources": [{"numInputRows": 100}]}


def query(run: str, *reports: dict[str, Any], name: str | None = "orders") -> Any:
    status = {"isTriggerActive": False}
    return SimpleNamespace(id="0123456789", runId=run, name=name, recentProgress=list(reports), status=status)


def session(*queries: Any, **settings: str) -> Any:
    conf = SimpleNamespace(get=lambda key, default=None: (settings or SETTINGS).get(key, default))
    return SimpleNamespace(streams=SimpleNamespace(active=list(queries)), conf=conf)


def test_the_pool_is_what_the_settings_say() -> None:
    pool = ConnectCluster(session()).observe().pool
    assert (pool.registered, pool.slots) == (3, 12)
    local = ConnectCluster(session(**{"spark.master": "local[2]"})).observe().pool
    assert (local.registered, local.slots) == (1, 2)


def test_each_batch_is_seen_once_and_the_trigger_is_inferred() -> None:
    reports = [report("r", batch, BEGAN_S + 2 * batch) for batch in range(6)]
    spark = session(query("r", *reports[:4]))
    cluster = ConnectCluster(spark)
    assert [batch.batch_id for batch in cluster.observe().applications[0].batches] == [0, 1, 2, 3]
    spark.streams.active = [query("r", *reports)]
    (sample,) = cluster.observe().applications
    assert [batch.batch_id for batch in sample.batches] == [4, 5]
    assert sample.interval_s == 2.0
    assert sample.batches[0].busy_s == pytest.approx(0.4 * 12), "as if all slots were busy"
    assert sample.batches[0].overhead_s == pytest.approx(0.1)
    assert "latency" in sample.estimated


def test_a_query_that_restarts_between_two_looks_is_one_application() -> None:
    spark = session(query("first", report("first", 0, BEGAN_S)))
    cluster = ConnectCluster(spark)
    cluster.observe()
    spark.streams.active = [query("second", report("second", 1, BEGAN_S + 10.0))]
    (sample,) = cluster.observe().applications
    assert sample.running
    assert [batch.batch_id for batch in sample.batches] == [1]
    spark.streams.active = []
    (ended,) = cluster.observe().applications
    assert not ended.running
    assert cluster.observe().applications == ()


def test_a_query_without_a_name_and_a_report_that_is_none(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ConnectCluster(session(query("r", {"id": "q"}, report("r", 0, BEGAN_S), name=None)))
    (sample,) = cluster.observe().applications
    assert sample.name == "query-01234567"
    assert len(sample.batches) == 1
    cluster.observe()
    assert caplog.text.count("a progress report was skipped") == 1, "although it is sent again every time"


def test_nothing_is_changed() -> None:
    (receipt,) = ConnectCluster(session()).converge(Targets().after([ScaleExecutors(4)])).actions
    assert receipt.outcome == "refused"
    assert "attach there" in receipt.note
