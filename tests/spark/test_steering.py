"""What can be turned on live queries: executors, admission, restarts; and that the job outlives its controller."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.core import bare_replay
from tests.spark.conftest import (
    batches,
    observations,
    rebalances,
    samples,
    told_rows,
    wait_for,
    wait_for_batches,
    wait_for_end,
)
from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.gatefile import (
    GateLimit,
    GateRequest,
    InForce,
    read_admission,
    read_answer,
    write_admission,
    write_answer,
    write_request,
)
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.source import LoadReader
from tidegate.adapters.spark.topology import Topology
from tidegate.adapters.spark.transaction import RebalanceFailed, Step, Transaction
from tidegate.control import runner
from tidegate.control.controller import Controller
from tidegate.control.journal import read_entries, read_notes
from tidegate.domain import (
    Action,
    Decision,
    InvalidInput,
    Outcome,
    Receipt,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    Targets,
)
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.policy import Policy
from tidegate.load import Constant
from tidegate_lab.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts


def apply(gate: Gate, *actions: Action) -> Receipt:
    return gate.cluster.converge(Targets().after(actions))


def test_admission_changes_while_the_query_runs(spark: SparkSession, gate: Gate) -> None:
    job = WordCount(Constant(rate=400), lookup_s=0.0, lookup_tasks=2, count_tasks=2, rows_per_trigger=100)
    gate.start("gated", job.build)
    wait_for_batches(gate, "gated", 2)
    wait_for(lambda: samples(gate, "gated")[-1].gated, "the gate's answer")
    assert samples(gate, "gated")[-1].admission_rows == 100
    run_id = gate.queries()[0].query.runId
    receipt = apply(gate, SetAdmission("gated", 37))
    assert receipt.actions[0].outcome is Outcome.DONE
    wait_for(lambda: batches(gate, "gated")[-1].rows == 37, "a batch of 37 rows")
    assert (batches(gate, "gated")[-1].backlog_rows or 0) > 0, "what is not let in waits at the gate"
    receipt = apply(gate, SetBatchInterval("gated", 2.5))
    assert "without a restart" in receipt.actions[0].note
    count = len(batches(gate, "gated"))
    wait_for(lambda: len(batches(gate, "gated")) >= count + 6, "six more batches")
    recent = [batch for batch in batches(gate, "gated") if batch.rows][-4:]
    assert recent[-1].committed_s - recent[0].started_s > 3 * 2.5 - 0.1
    assert gate.queries()[0].query.runId == run_id, "no restart"


def test_parallelism_changes_by_a_restart_and_no_row_is_lost_or_doubled(spark: SparkSession, gate: Gate) -> None:
    job = WordCount(Constant(rate=150), lookup_s=0.0, lookup_tasks=2, count_tasks=2)
    query = gate.start("restarted", job.build)
    wait_for_batches(gate, "restarted", 3)
    receipt = apply(gate, SetParallelism("restarted", "lookup", 3))
    assert receipt.actions[0].outcome is Outcome.UNDER_WAY
    report = wait_for(lambda: rebalances(gate, "restarted"), "the report of the rebalance")[0]
    assert report.done
    assert report.pause_s > 0
    wait_for(
        lambda: any([one.parallelism for one in batch.operators][1:2] == [3] for batch in batches(gate, "restarted")),
        "a batch with three look-up tasks",
    )
    assert apply(gate, SetParallelism("restarted", "lookup", 3)).actions == (), "it is so already"
    query.stop_at_boundary()
    rows = told_rows(spark, gate, "restarted")
    check = check_rows(state_counts(spark, query.settings.checkpoint), expected_counts(rows))
    assert (check.rows_out, check.rows_lost, check.rows_doubled) == (rows, 0, 0)


def test_a_gate_closed_for_a_moment_does_not_stay_so(spark: SparkSession, gate: Gate) -> None:
    job = WordCount(Constant(rate=200), lookup_s=0.0, lookup_tasks=1, count_tasks=1, trigger_s=0.3)
    query = gate.start("momentary", job.build)
    wait_for_batches(gate, "momentary", 2)
    query.close_gate("test")
    wait_for(lambda: query.gate_answer and query.gate_answer.closed, "the closure")
    apply(gate, SetAdmission("momentary", 55))
    query.open_gate("test")
    wait_for(lambda: batches(gate, "momentary")[-1].rows == 55, "a batch of 55 rows")


def test_a_query_that_was_stopped_is_not_started_again(spark: SparkSession, gate: Gate) -> None:
    job = WordCount(Constant(rate=50), lookup_s=0.0, lookup_tasks=1, count_tasks=1, trigger_s=0.3)
    query = gate.start("stopped", job.build)
    wait_for_batches(gate, "stopped", 1)
    apply(gate, SetParallelism("stopped", "lookup", 2))
    query.stop_at_boundary()
    assert not query.query.isActive
    with pytest.raises(RebalanceFailed, match="no longer runs"):
        query.rebalance(query.settings.with_parallelism("lookup", 3))
    assert not query.query.isActive


def test_a_query_that_is_killed_in_a_rebalance_stays_dead(spark: SparkSession, gate: Gate) -> None:
    job = WordCount(Constant(rate=50), lookup_s=0.0, lookup_tasks=1, count_tasks=1, trigger_s=0.3)
    query = gate.start("killed", job.build)
    wait_for_batches(gate, "killed", 1)

    def kill_when_stopped(transaction: Transaction) -> None:
        if transaction.step is Step.STOPPED:
            query.kill()

    with pytest.raises(RebalanceFailed, match="was stopped in the meantime"):
        query.rebalance(query.settings.with_parallelism("lookup", 2), told=kill_when_stopped)
    assert not query.query.isActive


def test_a_journal_that_cannot_be_written_does_not_stop_the_query(spark: SparkSession, gate: Gate) -> None:
    def full(_: object) -> None:
        raise OSError("no space left on device")

    job = WordCount(Constant(rate=50), lookup_s=0.0, lookup_tasks=1, count_tasks=1, trigger_s=0.3)
    query = gate.start("unnoted", job.build)
    wait_for_batches(gate, "unnoted", 1)
    assert query.rebalance(query.settings.with_parallelism("lookup", 2), told=full).pause_s > 0
    assert query.query.isActive


def test_settings_that_do_not_start_are_rolled_back(spark: SparkSession, gate: Gate) -> None:
    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        lines = session.readStream.format("tidegate").option("load", "50").option("gate", settings.gate).load()
        flow = Topology.source("lines", lines, settings=settings).operator("copy", lambda rows: rows, parallelism=1)
        if settings.parallelism("copy", 1) > 1:
            raise RuntimeError("too many copies")
        return flow.frame.writeStream.format("noop").option("checkpointLocation", settings.checkpoint)

    query = gate.start("fragile", build)
    wait_for_batches(gate, "fragile", 2)
    apply(gate, SetParallelism("fragile", "copy", 4))
    report = wait_for(lambda: rebalances(gate, "fragile"), "the report of the rebalance")[0]
    assert not report.done
    assert "too many copies" in report.note
    assert query.query.isActive
    before = len(batches(gate, "fragile"))
    wait_for(lambda: len(batches(gate, "fragile")) > before + 1, "batches after the rollback")


def test_queries_that_were_not_started_through_the_gate_are_not_restarted(
    spark: SparkSession, gate: Gate, tmp_path: Path
) -> None:
    receipt = apply(gate, SetParallelism("stranger", "lookup", 3))
    assert receipt.actions[0].outcome is Outcome.REFUSED
    assert "gate.start" in receipt.actions[0].note


def test_an_error_in_the_control_leaves_the_job_running(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = {"mode": "recommend", "interval_s": 0.5, "journal": {"path": str(tmp_path / "gate.db")}}
    with attach(spark, policy) as gate:
        job = WordCount(Constant(rate=100), lookup_s=0.0, lookup_tasks=2, count_tasks=2)
        query = gate.start("survivor", job.build)
        wait_for_batches(gate, "survivor", 2)

        def broken(observation: object) -> Decision:
            raise ZeroDivisionError("a bug in a planner")

        healthy = gate.controller.step
        gate.controller.step = broken  # type: ignore[method-assign, assignment]
        wait_for(lambda: any(note.event == "step-failed" for note in read_notes(gate.journal.path)), "a failed step")
        gate.controller.step = healthy  # type: ignore[method-assign]
        gate.settle(30.0)
        assert gate.running, "one step that fails does not end the control"
        monkeypatch.setattr(runner, "MOST_FAILURES", 2)
        gate.controller.step = broken  # type: ignore[method-assign, assignment]
        wait_for(lambda: not gate.running, "the end of the control")
        assert isinstance(gate.failure, ZeroDivisionError)
        note = read_notes(gate.journal.path)[-1]
        assert (note.event, note.text) == ("control-failed", "ZeroDivisionError: a bug in a planner")
        last = query.query.lastProgress["batchId"]
        wait_for(lambda: query.query.lastProgress["batchId"] > last + 1, "more batches without the control")
        query.stop_at_boundary()


def test_recorded_observations_of_a_live_run_repeat_its_decisions(spark: SparkSession, tmp_path: Path) -> None:
    policy = Policy.model_validate(
        {
            "mode": "recommend",
            "interval_s": 0.5,
            "journal": {"path": str(tmp_path / "gate.db")},
            "objective": {"latency_s": 4},
        }
    )
    with attach(spark, policy) as gate:
        job = WordCount(Constant(rate=300), lookup_s=0.005, lookup_tasks=4, count_tasks=2)
        query = gate.start("recorded", job.build)
        wait_for_batches(gate, "recorded", 6)
        wait_for(lambda: actions(gate), "something that the run wants")
        query.stop_at_boundary()
    wait_for_end(gate)
    entries = list(read_entries(tmp_path / "gate.db"))
    decisions = [entry.decision for entry in entries]
    again = Controller(policy)
    assert [again.step(entry.observation) for entry in entries if entry.observation] == decisions


def test_a_live_run_that_acted_is_repeated_without_the_extras(spark: SparkSession, tmp_path: Path) -> None:
    """Observations and receipts of a run in mode apply, given to a controller that has numpy, pydantic and pyyaml."""
    policy = Policy.model_validate(
        {"interval_s": 0.5, "journal": {"path": str(tmp_path / "gate.db")}, "objective": {"latency_s": 4}}
    )
    with attach(spark, policy) as gate:
        job = WordCount(Constant(rate=300), lookup_s=0.005, lookup_tasks=4, count_tasks=2)
        query = gate.start("acted", job.build)
        wait_for_batches(gate, "acted", 12)
        wait_for(lambda: actions(gate), "something that the run does")
        query.stop_at_boundary()
    wait_for_end(gate)
    entries = [entry for entry in read_entries(tmp_path / "gate.db") if entry.observation is not None]
    assert any(entry.receipt and entry.receipt.actions for entry in entries), "the world should have answered"
    lines = [
        json.dumps([to_json(entry.observation), to_json(entry.receipt) if entry.receipt else None]) for entry in entries
    ]
    bare = subprocess.run(
        [sys.executable, bare_replay.__file__],
        input="\n".join([to_json(policy), "[]", *lines]),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert bare.returncode == 0, bare.stderr
    found = json.loads(bare.stdout)
    assert found["compiled"] is False
    decisions = [from_json(Decision, text) for text in found["decisions"]]
    assert decisions == [entry.decision for entry in entries]


def test_a_restarted_driver_picks_its_knowledge_up(spark: SparkSession, tmp_path: Path) -> None:
    policy = {"mode": "recommend", "interval_s": 0.5, "journal": {"path": str(tmp_path / "gate.db")}}
    with attach(spark, policy) as first:
        job = WordCount(Constant(rate=100), lookup_s=0.004, lookup_tasks=2, count_tasks=2)
        query = first.start("learned", job.build)
        # The first batches may be set aside as those of cold executors, so their number says nothing.
        wait_for(lambda: row_cost(first, "learned") > 0, "the cost of a row")
        query.stop_at_boundary()
    wait_for_end(first)  # it saves what it knows
    learned = row_cost(first, "learned")
    with attach(spark, policy) as second:
        assert second.controller.knowledge.evaluation.step >= first.controller.knowledge.evaluation.step > 0
        assert row_cost(second, "learned") == learned > 0


def actions(gate: Gate) -> list[Action]:
    entries = read_entries(gate.journal.path, observations=False)
    return [action for entry in entries if entry.decision for action in entry.decision.actions]


def row_cost(gate: Gate, name: str) -> float:
    """Slot-seconds that a row of the query is known to cost; NaN while that is not known."""
    table = gate.controller.knowledge.evaluation.table
    row = table.row(name)
    return float("nan") if row is None else float(table["row_s"][row])


def test_attaching_twice_is_refused(spark: SparkSession, gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="already attached to this Spark context"):
        attach(spark)


@pytest.mark.parametrize("mode", ["sometimes", ""])
def test_an_unknown_mode_is_refused(spark: SparkSession, mode: str) -> None:
    with pytest.raises(InvalidInput, match="use off, recommend or apply"):
        attach(spark, mode=mode)


def test_a_build_that_starts_its_query_itself_is_refused(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    def build(session: SparkSession, settings: Settings) -> DataStreamWriter:
        frame = session.readStream.format("rate").load().select(F.col("value"))
        started = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
        started.stop()
        return started  # type: ignore[return-value]

    with pytest.raises(InvalidInput, match=r"without \.start"):
        gate.start("eager", build)


def test_a_gate_file_that_is_half_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    assert read_admission(path) is None
    path.write_text('{"rows_per_trig')
    assert read_admission(path) is None
    write_admission(path, GateLimit(5, 1.0))
    assert read_admission(path) == GateLimit(5, 1.0)
    assert read_answer(path) is None
    write_answer(path, InForce(GateLimit(None, 0.0), 12.5, 70))
    assert read_answer(path) == InForce(GateLimit(None, 0.0), 12.5, 70)
    assert read_admission(path) == GateLimit(5, 1.0)


def test_a_closed_gate_opens_by_itself_with_the_limit_that_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    start_ms = int(time.time() * 1000) - 60_000
    reader = LoadReader({"load": "100", "gate": str(path), "start_ms": str(start_ms)})
    start = reader.initialOffset()
    write_request(path, GateRequest(GateLimit(7), closed_until_s=time.time() + 600.0))
    assert reader.latestOffset(start) == start
    answer = read_answer(path)
    assert answer is not None
    assert (answer.closed, answer.admission) == (True, GateLimit(7))
    write_request(path, GateRequest(GateLimit(7), closed_until_s=time.time() + 1.0))
    wait_for(lambda: reader.latestOffset(start)["row"] == 7, "the end of the closure")
    write_request(path, GateRequest(None, closed_until_s=time.time() - 1.0))
    assert reader.latestOffset(start)["row"] > 1000, "nothing is asked any more: all rows"


def test_a_gate_is_never_closed_for_good(spark: SparkSession, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    job = WordCount(Constant(rate=200), lookup_s=0.0, lookup_tasks=1, count_tasks=1, trigger_s=0.3)
    query = gate.start("forgotten", job.build)
    wait_for_batches(gate, "forgotten", 1)
    query.close_gate("somebody who never comes back")
    wait_for(lambda: query.gate_answer and query.gate_answer.closed, "the closure")
    monkeypatch.setattr("tidegate.adapters.spark.restartablequery._CLOSED_AT_MOST_S", 2.0)
    query.close_gate("somebody who never comes back")
    before = len(batches(gate, "forgotten"))
    wait_for(lambda: len(batches(gate, "forgotten")) > before + 1, "batches after the closure")


def test_the_host_is_observed(gate: Gate) -> None:
    host = wait_for(lambda: observations(gate), "an observation")[-1].hosts[0]
    assert host.cpus >= 1
    assert host.memory_bytes is not None
