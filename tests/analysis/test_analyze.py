"""The whole way: a log or a history in, a page and a JSON document out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tests.core.worlds import application, batch, pool
from tests.history.logs import event_log
from tidegate.cli.analyze import analyze
from tidegate.control.journal import SqliteJournal
from tidegate.domain import InvalidInput, Observation
from tidegate.history.metrictable import MetricRecord
from tidegate.history.parquetwriter import HistoryWriter

app = typer.Typer()
app.command()(analyze)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.fixture
def history(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with HistoryWriter(tmp_path / "history") as writer:
        for at in range(90):
            rows = float(rng.poisson(100))
            metrics = {
                "rows": rows,
                "input_rows_per_s": rows,
                "batch_duration_s": 0.1 + 0.004 * rows + 0.02 * rng.normal(),
                "throughput_rows_per_s": rows + rng.normal(),
                "slots": 4.0,
                "work.rows_in": rows,
                "work.busy_s": 0.01 * rows,
                "work.parallelism": 8.0,
                "gc_s": 0.01 * float(rng.random()),
            }
            writer.add("shop", MetricRecord(1000.0 + at, at, metrics))
    return tmp_path / "history"


@pytest.mark.slow
def test_a_history_becomes_a_page_and_a_document(history: Path, tmp_path: Path) -> None:
    document = json.loads(run(str(history), "--out", str(tmp_path / "out"), "--json"))
    (shop,) = document["applications"]
    assert shop["samples"] == 90
    assert shop["drivers"]["batch_duration_s"][0]["name"] in ("rows", "input_rows_per_s", "work.rows_in", "work.busy_s")
    assert {entry["target"] for entry in shop["learning"]} == {"batch_duration_s", "throughput_rows_per_s"}
    assert shop["profile"]["operators"][0]["row_s"] == pytest.approx(0.01)
    assert {"name": "slots", "why": "constant"} in shop["dropped"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 4
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads((tmp_path / "out" / "analysis.json").read_text()) == document


def test_a_log_in_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "app-1"
    log.write_text("\n".join([*event_log(8), '{"Event": "Spark']))
    shown = run(str(log))
    assert "words: 8 samples" in shown
    assert "1 of " in shown
    assert "truncated" in shown


def test_a_journal_is_a_history(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "job.db")
    for number in range(12):
        rows = 100 + 7 * (number % 5)
        seen = application((batch(number, 1000.0 + number, rows),))
        journal.record(Observation(1001.0 + number, (seen,), pool(1)), None, None)
    document = json.loads(run(str(tmp_path / "job.db"), "--json"))
    assert document["source"] == "journal"
    (found,) = document["applications"]
    assert (found["application"], found["samples"]) == ("app", 12)
    assert found["summary"]["rows"]["max"] == 128


def test_nothing_in_it_is_said_not_raised(tmp_path: Path) -> None:
    start = {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}
    (tmp_path / "app-1").write_text(json.dumps(start) + "\ncut off\n")
    assert "no batches were found" in run(str(tmp_path / "app-1"), "--out", str(tmp_path / "out"))
    assert "No batches were found" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "abacus"], "use memory or spark"),
        (["--correction", "magic"], "bh, holm, none"),
        (["--application", "none"], "there are: shop"),
    ],
)
def test_bad_input(history: Path, options: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(str(history), *options)
