"""State moves to other partitions while the query goes on, and nothing is lost, doubled or left half done."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.conftest import batches, rebalances, wait_for, wait_for_batches
from tidegate.control.journal import read_notes
from tidegate.domain import Decision, Outcome, Receipt, ScaleExecutors, SetParallelism
from tidegate.domain.codec import to_json
from tidegate.load import Constant
from tidegate.spark.attach import Gate
from tidegate.spark.checkpoint import Checkpoint
from tidegate.spark.files import Files
from tidegate.spark.pool import settle_executors
from tidegate.spark.rebalance import Step, Transaction
from tidegate.spark.settings import Settings
from tidegate.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts

JOB = WordCount(Constant(rate=200), lookup_s=0.0, lookup_tasks=2, count_tasks=2)


def apply(gate: Gate, *actions: SetParallelism | ScaleExecutors) -> Receipt:
    return gate.cluster.apply(Decision(1, time.time(), actions, (), ()))


def assert_exact(spark: SparkSession, gate: Gate, name: str) -> None:
    """Every row that was ever committed is in the state once."""
    query = next(query for query in gate.queries() if query.name == name)
    query.stop_at_boundary()
    gate.settle()
    rows = sum(batch.rows for batch in batches(gate, name))
    check = check_rows(state_counts(spark, query.settings.checkpoint), expected_counts(rows))
    assert (check.rows_out, check.rows_lost, check.rows_doubled) == (rows, 0, 0)


def test_state_and_stateless_operators_move_in_one_restart(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    query = gate.start("moved", JOB.build, checkpoint=tmp_path / "moved")
    wait_for_batches(gate, "moved", 3)
    receipt = apply(gate, SetParallelism("moved", "lookup", 3), SetParallelism("moved", "count", 5))
    assert [answer.outcome for answer in receipt.actions] == [Outcome.UNDER_WAY] * 2
    report = wait_for(lambda: rebalances(gate, "moved"), "the report")[0]
    assert report.done, report.note
    assert report.state_rows > 0
    assert 0 < report.pause_s < 60
    seen = wait_for(
        lambda: [batch for batch in batches(gate, "moved")[-2:] if batch.rows and len(batch.operators) == 3][-1:],
        "a batch on the new partitions",
    )[0]
    assert [operator.parallelism for operator in seen.operators[1:]] == [3, 5]
    assert seen.operators[2].stateful
    assert seen.operators[2].state_rows > 0
    steps = [note.event for note in read_notes(gate.journal.path) if note.event.startswith("rebalance-")]
    walked = "planned draining stopped backed-up repartitioned verified restarted confirmed done"
    assert steps == [f"rebalance-{step}" for step in walked.split()]
    assert query.settings.tasks == {"lookup": 3, "count": 5}
    assert_exact(spark, gate, "moved")


def test_a_query_that_does_not_start_on_its_new_state_goes_back_to_the_old(
    spark: SparkSession, gate: Gate, tmp_path: Path
) -> None:
    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        if settings.parallelism("count", 2) == 4:
            raise RuntimeError("four is too many")
        return JOB.build(session, settings)

    query = gate.start("returned", build, checkpoint=tmp_path / "returned")
    wait_for_batches(gate, "returned", 2)
    apply(gate, SetParallelism("returned", "count", 4))
    report = wait_for(lambda: rebalances(gate, "returned"), "the report")[0]
    assert not report.done
    assert "four is too many" in report.note
    before = len(batches(gate, "returned"))
    wait_for(lambda: len(batches(gate, "returned")) > before + 1, "batches after the rollback")
    assert Checkpoint(spark, query.settings.checkpoint).state_partitions() == 2
    assert_exact(spark, gate, "returned")


def test_an_old_record_never_drops_batches_that_were_run_since(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    query = gate.start("overtaken", JOB.build, checkpoint=tmp_path / "overtaken")
    wait_for_batches(gate, "overtaken", 4)
    query.stop_at_boundary()
    checkpoint = Checkpoint(spark, str(tmp_path / "overtaken"))
    committed = checkpoint.position().committed
    left_behind = Transaction(Step.STOPPED, {}, {"count": 4}, partitions=4, batch=committed - 2)
    checkpoint.beside.replace("rebalance.json", to_json(left_behind))
    gate.start("overtaken", JOB.build, checkpoint=tmp_path / "overtaken")
    assert checkpoint.position().committed >= committed
    before = len(batches(gate, "overtaken"))
    wait_for(lambda: len(batches(gate, "overtaken")) > before, "another batch")
    assert_exact(spark, gate, "overtaken")


def test_a_checkpoint_elsewhere_is_left_alone(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        return JOB.build(session, replace(settings, checkpoint=str(tmp_path / "own")))

    gate.start("elsewhere", build)
    wait_for_batches(gate, "elsewhere", 2)
    apply(gate, SetParallelism("elsewhere", "count", 4))
    report = wait_for(lambda: rebalances(gate, "elsewhere"), "the report")[0]
    assert not report.done
    assert "settings.checkpoint" in report.note


def test_state_tasks_move_to_a_new_executor(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    settle_executors(spark, 1)
    job = WordCount(Constant(rate=200), lookup_s=0.0, lookup_tasks=2, count_tasks=4)
    gate.start("spread", job.build, checkpoint=tmp_path / "spread")
    first = wait_for_batches(gate, "spread", 3)[-1]
    assert len(set(first.operators[-1].executors)) == 1
    apply(gate, ScaleExecutors(2))
    wait_for(
        lambda: len(set(batches(gate, "spread")[-1].operators[-1].executors)) == 2,
        "state tasks on both executors",
    )
    apply(gate, ScaleExecutors(1))
    assert_exact(spark, gate, "spread")


def test_a_record_whose_writer_was_killed_before_the_rename_is_read(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, str(tmp_path))
    files.replace("record.json", "first")
    files.replace("record.json", "second")
    assert files.read("record.json") == "second"
    (tmp_path / "record.json").rename(tmp_path / "record.json.draft")
    assert files.read("record.json") == "second"
    assert files.read("other.json") is None
