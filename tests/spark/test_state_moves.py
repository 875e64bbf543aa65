"""State partitions on a live cluster: moved state equals state that never moved, and a pool that changes size."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import batches, observations, samples, told_rows, wait_for, wait_for_batches
from tidegate.adapters.spark.attach import attach
from tidegate.adapters.spark.cluster import SparkCluster
from tidegate.adapters.spark.executors import settle_executors
from tidegate.adapters.spark.sparkfeatures import probe
from tidegate.control.journal import read_entries
from tidegate.domain import MoveState, Outcome, Targets
from tidegate.domain.policy import Policy
from tidegate.load import Constant
from tidegate_lab.experiments.state_moves import Plan, run
from tidegate_lab.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts

LOCALITY = "spark.locality.wait"


def test_moved_state_is_the_state_that_never_moved(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_lab.experiments.state_moves._PATIENCE_S", 900.0)
    settle_executors(spark, 2)
    # Both queries go on reading while the killed executor is replaced: there are files for that time too.
    found = run(Plan(moves=20, kills=1, variants=((True, False),), files=600), spark=spark)
    settle_executors(spark, 1)
    assert found["moves"] >= 20
    assert found["kills"] == 1
    assert found["digests_equal"], found
    # Spark runs a task elsewhere where the slots of its executor are taken for long, as on a busy machine.
    assert found["in_place_within_two_batches"] >= 0.5


def test_state_follows_the_pool_up_and_down(spark: SparkSession, tmp_path: Path) -> None:
    settle_executors(spark, 1)
    policy = tmp_path / "policy.yaml"

    def bound(executors: int) -> None:
        text = f"interval_s: 0.5\nexecutors: {{min: {executors}, max: {executors}}}\n"
        draft = tmp_path / "policy.draft"
        draft.write_text(text + f"guards: {{cool_down_down_s: 1}}\njournal: {{path: {tmp_path / 'gate.db'}}}\n")
        draft.replace(policy)

    def places() -> tuple[str, ...]:
        return samples(gate, "spread")[-1].state_places

    bound(1)
    assert not spark.sparkContext._jsc.sc().conf().contains(LOCALITY)
    with attach(spark, policy) as gate:
        job = WordCount(Constant(rate=100), lookup_s=0.0, lookup_tasks=2, count_tasks=4)
        query = gate.start("spread", job.build, checkpoint=tmp_path / "spread")
        wait_for_batches(gate, "spread", 2)
        assert any("state of spread: yes" in str(one) for one in gate.capabilities())
        bound(2)
        wait_for(lambda: sorted(map(places().count, set(places()))) == [2, 2], "two partitions on each executor")
        wait_for(
            lambda: any(len(set(one.operators[-1].executors)) == 2 for one in batches(gate, "spread") if one.operators),
            "a batch whose state is on both",
        )
        bound(1)
        wait_for(lambda: observations(gate)[-1].pool.registered == 1, "one executor")
        wait_for_batches(gate, "spread", len(batches(gate, "spread")) + 2)
        query.stop_at_boundary()
        rows = told_rows(spark, gate, "spread")
        assert not spark.sparkContext._jsc.sc().conf().contains(LOCALITY), "as the user had it"
    decisions = [entry.decision for entry in read_entries(tmp_path / "gate.db") if entry.decision]
    moved = [one for decision in decisions for one in decision.moved]
    assert moved
    assert sum(one.batches is not None and one.batches <= 2 for one in moved) >= 0.5 * len(moved)
    last = [seen for seen in observations(gate) if seen.pool.registered == 2][-1]
    going = next(one.id for one in last.pool.executors if one.retiring)
    emptied = {action for decision in decisions for action in decision.actions if isinstance(action, MoveState)}
    assert any(action.executor != going for action in emptied), "its state was sent away before it went"
    check = check_rows(state_counts(spark, query.settings.checkpoint), expected_counts(rows))
    assert (check.rows_out, check.rows_lost, check.rows_doubled) == (rows, 0, 0)


@pytest.mark.parametrize(
    ("where", "setting"),
    [
        ("context", "spark.speculation"),
        ("session", "spark.sql.streaming.stateStore.unloadOnCommit"),
        ("old", "guards.move_old_rocksdb"),
    ],
)
def test_state_that_must_not_move_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, where: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "old":
        now = probe(spark)
        assert now.rocksdb_reloads, "this Spark has the fix"
        monkeypatch.setattr("tidegate.adapters.spark.cluster.probe", lambda _: replace(now, rocksdb_reloads=False))
    elif where == "context":
        spark.sparkContext._jsc.sc().conf().set(setting, "true")
    else:
        spark.conf.set(setting, "true")
    cluster = SparkCluster(spark, Policy())
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load().groupBy("value").count()
    writer = rows.writeStream.format("noop").outputMode("update").queryName("fixed")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    query = writer.option("checkpointLocation", str(tmp_path / "fixed")).start()
    try:
        sample = wait_for(
            lambda: next((one for one in cluster.observe().applications if one.state_places), None), "its state"
        )
        assert not sample.state_movable
        for partition, executor in product(range(2), ("0", "1")):
            (answer,) = cluster.converge(Targets(state={"fixed": {partition: executor}})).actions
            assert answer.outcome is Outcome.REFUSED
            assert setting in answer.note
    finally:
        query.stop()
        cluster.close()
        if where == "context":
            spark.sparkContext._jsc.sc().conf().remove(setting)
        elif where == "session":
            spark.conf.unset(setting)
        spark.conf.unset("spark.sql.shuffle.partitions")
