"""A twin of a run that only Spark's event log recorded."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.history.logs import event_log
from tests.twin.logged import event_log_of
from tests.twin.test_twin import DURATION_S, QUERY
from tidegate.adapters.sim import SimCluster
from tidegate.adapters.sim.scenariofile import load_scenario
from tidegate.cli.app import app
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.runner import Runner
from tidegate.domain import InvalidInput
from tidegate.domain.policy import Policy
from tidegate.twin.calibrate import calibrate
from tidegate.twin.recordedrun import Recording
from tidegate.twin.recordings import read_recording
from tidegate_lab.experiments.datasets import recorded

REAL = recorded("spark_event_logs/local-1596020211915")
POLICY = "objective: {latency_s: 6}\nexecutors: {min: 1, max: 5}\n"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose pool follows the load, as Spark would have logged it."""
    path = tmp_path_factory.mktemp("logged") / "app-1"
    cluster, book = SimCluster([QUERY], 2, 2, startup_s=12.0, max_executors=6, seed=4), MemoryJournal()
    cluster.clock.until_s = DURATION_S
    policy = Policy.model_validate({"objective": {"latency_s": 6}, "executors": {"min": 1, "max": 5}})
    Runner(cluster, Controller(policy), cluster.clock, book, book).run(DURATION_S)
    seen = [entry.observation for entry in book.entries if entry.observation is not None]
    path.write_text("\n".join(event_log_of(seen)))
    return path


@pytest.fixture(scope="module")
def recording(log: Path) -> Recording:
    return read_recording(log)


@pytest.mark.slow
def test_costs_interval_and_pool_are_found(recording: Recording) -> None:
    pool = calibrate(recording).pool
    assert pool is not None
    (query,) = pool.applications
    assert sum(operator.cost_s_per_row for operator in query.operators) == pytest.approx(0.003, rel=0.06)
    assert query.overhead_s == pytest.approx(0.4, rel=0.1)
    assert query.interval_s == 1.0
    assert (pool.executors, pool.slots_per_executor, pool.startup_s) == (2, 2, 5.0)
    assert len(recording.registered) > 1, "the pool has changed"


@pytest.mark.slow
def test_only_what_was_logged_is_compared(log: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    arguments = ["whatif", str(log), "--policy", str(policy), "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    measured, twin = found["measured"], found["twin"]
    assert (measured["late"], measured["p99_s"]) == (None, None)
    assert twin["late"] is not None
    assert twin["executor_seconds"] == pytest.approx(measured["executor_seconds"], rel=0.02)
    assert twin["batch_p50_s"] == pytest.approx(measured["batch_p50_s"], rel=0.15)
    assert len(found["notes"]) == 1
    assert "neither row latency nor how long executors take to start" in found["notes"][0]
    assert (tmp_path / "whatif.png").stat().st_size > 5000
    text = CliRunner().invoke(app, arguments).stdout
    (happened,) = [line.split() for line in text.splitlines() if "what happened" in line]
    assert happened[2] == happened[4] == "–"


@pytest.mark.slow
def test_a_compressed_log_gives_the_same_twin(log: Path, recording: Recording, tmp_path: Path) -> None:
    packed = tmp_path / "app-1.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert calibrate(read_recording(packed)) == calibrate(recording)


def test_rows_left_waiting_are_arrivals(tmp_path: Path) -> None:
    """Each batch of the made log leaves three rows more behind than the last one."""
    path = tmp_path / "log"
    path.write_text("\n".join(event_log()))
    recording = read_recording(path)
    words = recording.queries["words"]
    read = [batch.rows for batch in words.batches]
    assert "read or left waiting" in recording.notes[0]
    times_s = [batch.started_s for batch in words.batches]
    arrived = words.arrived_by(times_s)  # type: ignore[arg-type]
    assert arrived[-1] == sum(read[1:]) + (words.batches[-1].backlog_rows or 0) - (words.batches[0].backlog_rows or 0)
    assert any("unknown kinds" in note for note in recording.notes), "what was skipped is told"


def without(lines: list[str], kind: str) -> list[str]:
    return [line for line in lines if kind not in line]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (without(event_log(), "QueryProgress"), "contains no batches of a streaming query"),
        (without(event_log(), "ExecutorAdded"), "shows no executors"),
        (["this is a text"], "neither a journal nor a Spark event log"),
        ([], "neither a journal nor a Spark event log"),
    ],
    ids=["no batches", "no executors", "text", "empty"],
)
def test_other_files_are_refused_in_one_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_text("\n".join(lines))
    with pytest.raises(InvalidInput, match=message) as refused:
        read_recording(path)
    assert "\n" not in str(refused.value)


def test_of_several_logs_one_has_to_be_chosen(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_text("\n".join(event_log()))
    with pytest.raises(InvalidInput, match="contains 2 logs with streaming queries"):
        read_recording(tmp_path)


@pytest.mark.skipif(REAL is None, reason="the recorded event logs are not here")
def test_a_log_of_spark_itself(tmp_path: Path) -> None:
    scenario = tmp_path / "twin.yaml"
    result = CliRunner().invoke(app, ["twin", os.fspath(REAL or ""), "-o", str(scenario), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    (query,) = found["queries"].values()
    assert 1e-4 < query["row_s"] < 1e-3
    assert query["interval_s"] == 0.0, "batches followed each other"
    pool = load_scenario(scenario).pool
    assert pool is not None
    assert (pool.executors, pool.slots_per_executor) == (1, 4)
