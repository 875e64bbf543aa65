"""State moves to other partitions while the query goes on, and nothing is lost, doubled or left half done."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.conftest import batches, rebalances, told_rows, wait_for, wait_for_batches
from tests.spark.keyed import CHANGELOG, keyed_check, keyed_count
from tidegate.adapters.spark.attach import Gate
from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.hadoopfiles import HadoopFiles
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.transaction import RebalanceFailed, RestartFailed, Step, Transaction
from tidegate.control.journal import read_notes
from tidegate.domain import Outcome, QueryFailed, Receipt, ScaleExecutors, SetParallelism, Targets
from tidegate.domain.codec import to_json
from tidegate.load import Constant
from tidegate_lab.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts

JOB = WordCount(Constant(rate=200), lookup_s=0.0, lookup_tasks=2, count_tasks=2)


def apply(gate: Gate, *actions: SetParallelism | ScaleExecutors) -> Receipt:
    return gate.cluster.converge(Targets().after(actions))


def assert_exact(spark: SparkSession, gate: Gate, name: str) -> None:
    """Every row that was ever committed is in the state once."""
    query = next(query for query in gate.queries() if query.name == name)
    query.stop_at_boundary()
    rows = told_rows(spark, gate, name)
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
    assert report.pause_s > 0
    seen = wait_for(
        lambda: [
            batch
            for batch in batches(gate, "moved")
            if batch.rows and [operator.parallelism for operator in batch.operators[1:]] == [3, 5]
        ],
        "a batch on the new partitions",
    )[-1]
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


def test_a_rollback_leaves_no_state_of_the_other_partitions(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    build = keyed_count(refused=lambda settings: settings.parallelism("count", 2) == 4)
    query = gate.start("cleaned", build, checkpoint=tmp_path / "cleaned")
    try:
        wait_for_batches(gate, "cleaned", 3)
        with pytest.raises(RebalanceFailed, match="rolled back: refused"):
            query.rebalance(query.settings.with_parallelism("count", 4), 4)
        wait_for_batches(gate, "cleaned", 5)
        query.stop_at_boundary()
    finally:
        spark.conf.unset(CHANGELOG)
    assert sorted(path.name for path in (tmp_path / "cleaned/state/0").glob("[0-9]*")) == ["0", "1"]
    rows, lost, doubled = keyed_check(spark, query.settings.checkpoint)
    assert rows > 0
    assert (lost, doubled) == (0, 0)


def test_a_rollback_that_is_cut_short_anywhere_can_be_finished(spark: SparkSession, tmp_path: Path) -> None:
    """Every deletion in turn is the last one; no log ever has a hole, and the next attempt ends where all end."""
    kept = {
        *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in range(6)),
        *("state/0/_metadata/v2/0", "state/0/0/6.zip", "state/0/0/6.changelog", "state/0/0/SSTs/000008-a.sst"),
        *(
            "state/0/1/6_one.zip",
            "state/1/0/left-keyToNumValues/6.zip",
            "state/0/3/2.zip",
            "state/0/3/SSTs/000004-a.sst",
        ),
    }
    dropped = {
        *("offsets/6", "offsets/7", "commits/6", "state/0/_metadata/v2/6", "state/0/0/7.zip", "state/0/0/8.changelog"),
        *("state/0/1/7_two.zip", "state/1/0/left-keyToNumValues/7.zip", "state/0/3/7.zip"),
        *("state/0/2/7.zip", "state/0/2/SSTs/000008-b.sst", "state/1/2/left-keyToNumValues/7.zip"),
    }
    partitions = 'v1\n{"conf": {"spark.sql.shuffle.partitions": "%d"}}\n{"row": 1}'
    for last in range(len(dropped) + 4):
        root = tmp_path / f"cut [{last}]"
        for name in kept | dropped:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(partitions % (2 if name in kept else 4))
        checkpoint = Checkpoint(spark, str(root))
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(InterruptedError):
            patch.setattr(HadoopFiles, "delete", dying_after(last))
            checkpoint.drop_after(5)
        for log in ("offsets", "commits"):
            numbers = sorted(int(path.name) for path in (root / log).iterdir() if path.name.isdigit())
            assert numbers == list(range(len(numbers)))
        if any((root / name).exists() for name in dropped):
            assert (root / "offsets/6").exists(), "what is left cannot be told from what belongs there"
        checkpoint.drop_after(5)
        assert {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} == kept
        assert not (root / "state/0/2").exists()


def dying_after(deletions: int) -> Callable[[HadoopFiles, str], None]:
    delete, done = HadoopFiles.delete, itertools.count()

    def delete_or_die(files: HadoopFiles, name: str) -> None:
        if next(done) == deletions:
            raise InterruptedError("killed")
        delete(files, name)

    return delete_or_die


@pytest.mark.parametrize("step", [Step.ROLLING_BACK, Step.VERIFIED])
def test_recovery_finishes_a_rollback_that_had_removed_the_commit(
    spark: SparkSession, gate: Gate, tmp_path: Path, step: Step
) -> None:
    """Whether the record says so or could not be written: a repartition without its commit has to go. The checksum of
    the commit is still there; Spark could not write another."""
    name = f"resumed-{step.name.lower()}"
    query = gate.start(name, JOB.build, checkpoint=tmp_path / name)
    wait_for_batches(gate, name, 2)
    query.stop_at_boundary()
    checkpoint = Checkpoint(spark, str(tmp_path / name))
    if not checkpoint.position().clean:
        query.finish_pending()
    batch = checkpoint.position().committed
    spark._streamingCheckpointManager.repartition(checkpoint.path, 3)
    (tmp_path / name / f"commits/{batch + 1}").unlink()
    record = Transaction(step, {}, {"count": 3}, partitions=3, batch=batch)
    checkpoint.beside.replace("rebalance.json", to_json(record))
    gate.start(name, JOB.build, checkpoint=tmp_path / name)
    assert checkpoint.state_partitions() == 2
    wait_for(lambda: checkpoint.position().committed > batch, "a batch after the recovery")
    assert_exact(spark, gate, name)


def test_a_stop_that_fails_leaves_the_gate_open(spark: SparkSession, gate: Gate) -> None:
    class Stubborn:
        """A query that cannot be stopped."""

        def __init__(self, query: StreamingQuery) -> None:
            self.query = query

        def stop(self) -> None:
            raise TimeoutError("it does not stop")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.query, name)

    query = gate.start("stubborn", JOB.build)
    wait_for_batches(gate, "stubborn", 1)
    running = query.query
    query.query = Stubborn(running)  # type: ignore[assignment]
    with pytest.raises(RebalanceFailed, match="continues unchanged: it does not stop"):
        query.restart(query.settings.with_parallelism("lookup", 3))
    before = len(batches(gate, "stubborn"))
    wait_for(lambda: len(batches(gate, "stubborn")) > before + 1, "batches after the failed restart")
    with pytest.raises(TimeoutError):
        query.stop_at_boundary()
    before = len(batches(gate, "stubborn"))
    wait_for(lambda: len(batches(gate, "stubborn")) > before + 1, "batches after the failed stop")
    query.query = running


def test_the_way_back_is_tried_again(spark: SparkSession, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.adapters.spark.rebalance._BACK_OFF_S", (0.1, 0.1, 0.1))
    starts = itertools.count()

    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        if next(starts) in {1, 2, 3}:
            raise OSError("the metastore does not answer")
        return JOB.build(session, settings)

    query = gate.start("retried", build)
    wait_for_batches(gate, "retried", 1)
    with pytest.raises(RebalanceFailed, match="rolled back: the metastore"):
        query.restart(query.settings.with_parallelism("lookup", 3))
    assert query.query.isActive
    assert query.failure is None
    query.stop_at_boundary()
    assert query.await_end(120)


def test_a_query_that_cannot_be_started_again_says_so(
    spark: SparkSession, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.adapters.spark.rebalance._BACK_OFF_S", (0.1, 0.1))
    starts = itertools.count()

    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        if next(starts):
            raise OSError("the metastore does not answer")
        return JOB.build(session, settings)

    query = gate.start("lost", build)
    wait_for_batches(gate, "lost", 1)
    with pytest.raises(RestartFailed, match="3 attempts"):
        query.restart(query.settings.with_parallelism("lookup", 3))
    with pytest.raises(QueryFailed, match="the metastore does not answer"):
        query.await_end(120)
    assert isinstance(gate.failures()["lost"], RestartFailed)


def test_a_query_that_fails_by_itself_ends_with_its_error(spark: SparkSession, gate: Gate) -> None:
    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        rows = session.readStream.format("rate").load().select(F.raise_error(F.lit("a poisoned row")))
        return rows.writeStream.format("noop").option("checkpointLocation", settings.checkpoint)

    query = gate.start("poisoned", build)
    with pytest.raises(QueryFailed):
        query.await_end(300)
    assert "a poisoned row" in str(gate.failures()["poisoned"])


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


def test_a_record_whose_writer_was_killed_before_the_rename_is_read(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark, str(tmp_path))
    files.replace("record.json", "first")
    files.replace("record.json", "second")
    assert files.read("record.json") == "second"
    (tmp_path / "record.json").rename(tmp_path / "record.json.draft")
    assert files.read("record.json") == "second"
    assert files.read("other.json") is None
