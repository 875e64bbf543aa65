"""A twin knows what the run it was made from cost, and foretells another one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator, load_scenario
from tidegate.cli.app import app
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal, SqliteJournal
from tidegate.control.runner import Runner
from tidegate.domain import ApplicationSample, ExecutorPool, ExecutorSample, InvalidInput, Observation
from tidegate.domain.policy import Policy
from tidegate.load import Sinusoid
from tidegate.twin.calibrate import calibrate, to_yaml
from tidegate.twin.recordings import read_recording

QUERY = SimApplication(
    "words",
    Sinusoid(baseline=900, amplitude=500, period_s=240),
    overhead_s=0.4,
    operators=(SimOperator("split", 0.002, 8, task_overhead_s=0.005), SimOperator("count", 0.001, 8)),
    restartable=False,
)
DURATION_S = 300.0


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in another simulated world, which the twin knows only from its journal."""
    path = tmp_path_factory.mktemp("twin") / "run.db"
    cluster = SimCluster([QUERY], 2, 2, startup_s=12.0, max_executors=6, seed=4)
    book = SqliteJournal(path)
    policy = Policy.model_validate({"objective": {"latency_s": 6}, "executors": {"min": 1, "max": 5}})
    cluster.clock.until_s = DURATION_S
    Runner(cluster, Controller(policy), cluster.clock, book, book).run(DURATION_S)
    book.close()
    return path


@pytest.mark.slow
def test_costs_and_start_up_are_found(journal: Path) -> None:
    pool = calibrate(read_recording(journal)).pool
    assert pool is not None
    (query,) = pool.applications
    assert sum(operator.cost_s_per_row for operator in query.operators) == pytest.approx(0.003, rel=0.06)
    assert query.overhead_s == pytest.approx(0.4, rel=0.1)
    assert pool.startup_s == pytest.approx(12.0, abs=1.5)
    assert (pool.executors, pool.slots_per_executor) == (2, 2)


@pytest.mark.slow
def test_the_twin_repeats_the_run_it_was_made_from(journal: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("objective: {latency_s: 6}\nexecutors: {min: 1, max: 5}\n")
    result = CliRunner().invoke(app, ["whatif", str(journal), "--policy", str(policy), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["twin"]["late"] == pytest.approx(found["measured"]["late"], abs=0.03)
    assert found["twin"]["executor_seconds"] == pytest.approx(found["measured"]["executor_seconds"], rel=0.1)
    assert found["twin"]["p99_s"] == pytest.approx(found["measured"]["p99_s"], rel=0.25)


@pytest.mark.slow
def test_the_twin_foretells_other_sizes(journal: Path, tmp_path: Path) -> None:
    """A pool that is too small: the twin says how bad it gets, and the world agrees."""
    rules = {"objective": {"latency_s": 6}, "executors": {"min": 2, "max": 2}}
    policy = tmp_path / "small.yaml"
    policy.write_text(yaml.safe_dump(rules))
    arguments = ["whatif", str(journal), "--policy", str(policy), "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    predicted = json.loads(result.stdout)["predicted"]
    world = SimCluster([QUERY], 2, 2, max_executors=6, seed=9)
    book = MemoryJournal()
    Runner(world, Controller(Policy.model_validate(rules)), world.clock, book, book).run(DURATION_S)
    assert predicted["late"] == pytest.approx(world.violation_rate("words", 6.0), abs=0.05)
    assert (tmp_path / "whatif.png").stat().st_size > 5000


@pytest.mark.slow
def test_the_scenario_can_be_simulated(journal: Path, tmp_path: Path) -> None:
    file = tmp_path / "twin.yaml"
    result = CliRunner().invoke(app, ["twin", str(journal), "-o", str(file)])
    assert result.exit_code == 0, result.output
    assert load_scenario(file).pool is not None
    assert to_yaml(load_scenario(file)) == file.read_text()


def test_executors_keep_their_slots_when_the_job_has_ended(tmp_path: Path) -> None:
    """The last observation of a job often shows an empty pool, whose executors seem to have one slot."""
    book = SqliteJournal(tmp_path / "run.db")
    executors = (ExecutorSample("0", "h", 4, 0, 0.0),)
    words = ApplicationSample("words", (), None, interval_s=1.0)
    for time_s, pool in ((10.0, ExecutorPool(executors, 1, 4)), (20.0, ExecutorPool((), 0, 1))):
        book.record(Observation(time_s, (words,), pool), None, None)
    book.close()
    recording = read_recording(tmp_path / "run.db")
    assert recording.slots_per_executor == 4
    assert recording.registered == ((10.0, 1), (20.0, 0))


def test_a_journal_without_observations_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    SqliteJournal(empty).close()
    with pytest.raises(InvalidInput, match="record a run first"):
        read_recording(empty)


def test_a_query_without_batches_is_not_the_one_that_is_compared(tmp_path: Path) -> None:
    path, policy = tmp_path / "two.db", tmp_path / "policy.yaml"
    policy.write_text("executors: {min: 1, max: 2}\n")
    busy = SimApplication("busy", 200.0, operators=(SimOperator("work", 0.002, 4),))
    cluster = SimCluster([busy], 1, 2, max_executors=2)
    book = SqliteJournal(path)
    for second in range(1, 40):
        cluster.clock.sleep_until(float(second))
        seen = cluster.observe()
        idle = ApplicationSample("idle", (), None, interval_s=1.0)
        book.record(replace(seen, applications=(idle, *seen.applications)), None, None)
    book.close()
    run = ["whatif", str(path), "--policy", str(policy), "--json"]
    compared = CliRunner().invoke(app, run)
    assert json.loads(compared.stdout)["application"] == "busy"
    refused = CliRunner().invoke(app, [*run, "--application", "idle"])
    assert isinstance(refused.exception, InvalidInput)
    assert "no query 'idle' with batches; there are busy" in str(refused.exception)
