"""What `tidegate operators` shows: load, rows and costs of every operator, within 80 columns, and where tasks ran."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from tests.plan.operators.worlds import batch, operator
from tidegate.cli.app import app
from tidegate.control.journal import SqliteJournal
from tidegate.domain import ApplicationSample, BatchSample, ExecutorPool, ExecutorSample, Observation
from tidegate.evaluate.bottleneck import aggregate
from tidegate.evaluate.profiles import profiles_of
from tidegate.plan.operators.migration import Instance, Place, migrate
from tidegate.view.operatorgraph import draw_operators
from tidegate.view.operatortable import render_migration, render_operators

SLOTS = 4


def batches(first_s: float = 0.1) -> list[BatchSample]:
    operators = (
        operator("lines", busy_s=first_s, execute_latency_s=first_s),
        operator("split", communication_s=0.8, rows_out=812, rows_transferred=40, failed_tasks=3, bytes_out=1200),
        operator(
            "count",
            stateful=True,
            state_rows=1234,
            state_bytes=3 << 20,
            longest_task_s=1.0,
            parallelism=2,
            slowest_task=1,
        ),
    )
    return [batch(number, *operators) for number in range(5)]


def sample(made: list[BatchSample]) -> ApplicationSample:
    return ApplicationSample("app", tuple(made), made[-1].committed_s, 1.0)


def printed(what: RenderableType) -> str:
    out = io.StringIO()
    Console(width=80, file=out).print(what)
    return out.getvalue()


def shown(made: list[BatchSample]) -> str:
    metrics = aggregate(sample(made), made)
    assert metrics is not None
    return printed(render_operators(metrics, profiles_of(made, SLOTS), SLOTS))


def test_load_rows_and_costs_of_every_operator() -> None:
    text = shown(batches())
    assert "bottleneck count" in text
    _, rows, costs = (line.split() for line in text.splitlines() if line.startswith("split "))
    assert rows == ["split", "100", "812", "40", "8.12", "3", "–", "–"]
    assert costs == ["split", "10,000", "µs", "10,000", "µs", "12", "B", "100", "rows/s", "–"]
    load, rows, costs = (line.split() for line in text.splitlines() if line.startswith("count "))
    assert load[1:3] == ["2", "█" * 10]
    assert load[-3:] == ["2.0", "(task", "1)"]
    assert rows[-2] == "1,234"
    assert costs[-4:] == ["200", "rows/s", "3.0", "MB"], "two tasks, each with a slot of its own"


def test_what_spark_does_not_count_is_a_dash() -> None:
    line = [line.split() for line in shown(batches()).splitlines() if line.startswith("lines ")][1]
    assert line[1:4] == ["100", "100", "–"], "not every log counts the rows written to a shuffle"


def test_the_tables_fit_80_columns() -> None:
    large = operator(
        "an-operator-with-a-long-name",
        parallelism=1200,
        rows_in=123_456_789,
        rows_out=987_654_321,
        rows_transferred=987_654_321,
        busy_s=9000.0,
        cpu_s=8000.0,
        communication_s=4000.0,
        execute_latency_s=123.4,
        bytes_out=1 << 40,
        stateful=True,
        state_rows=123_456_789,
        state_bytes=1 << 40,
        state_commit_s=12.3,
        longest_task_s=40.0,
        slowest_task=1199,
        failed_tasks=1234,
    )
    text = shown([batch(number, large, large) for number in range(5)])
    tables = text.splitlines()[2:-2]
    assert max(len(line.rstrip()) for line in tables) <= 80
    assert "…" not in text
    for heading in ("capacity", "skew", "sent", "failed", "commit", "network", "sustains", "state size"):
        assert heading in text


def test_the_command_prints_the_same_as_json(tmp_path: Path) -> None:
    made = batches(first_s=0.0)
    journal = SqliteJournal(tmp_path / "j.db")
    executors = (ExecutorSample("0", "here", SLOTS, 0, 0.0),)
    journal.record(Observation(200.0, (sample(made),), ExecutorPool(executors, 1, SLOTS)), None, None)
    journal.close()
    done = CliRunner().invoke(app, ["operators", str(journal.path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["app"]
    split = found["operators"][1]
    assert (split["rows_out"], split["rows_transferred"], split["failed_tasks"]) == (812, 40, 3)
    idle, profile, _ = found["profiles"]
    assert profile["sustainable_rows_per_s"] == pytest.approx(100)
    assert profile["network_bytes_per_row"] == pytest.approx(12)
    assert idle["sustainable_rows_per_s"] is None, "it took no time, so there is no largest rate"


def test_where_tasks_ran_and_the_graph(tmp_path: Path) -> None:
    here = Place("h1", "e0/0")
    assert "(–, h1)" in printed(render_migration(migrate({}, {Instance("app", "split", 0): here}), only=["app"]))
    made = batches()
    metrics = aggregate(sample(made), made)
    assert metrics is not None
    drawn = draw_operators(metrics, SLOTS, tmp_path / "graph.png", [("lines", "split"), ("lines", "count")])
    assert drawn.stat().st_size > 5000
