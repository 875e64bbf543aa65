"""`console`, `report` and `top` as commands: what they print, and what they say about bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console as Terminal
from typer.testing import CliRunner

from tests.view.worlds import steps, write
from tidegate.cli.app import app
from tidegate.domain import InvalidInput
from tidegate.view.book import Book
from tidegate.view.report import figures, page
from tidegate.view.terminal import screen

LONG = "a-query-with-a-name-that-nobody-wants-to-type-twice"


def test_top_fits_80_columns_and_tells_the_essentials(tmp_path: Path) -> None:
    path = write(tmp_path / "long.db", steps(60, (LONG, "clicks")))
    terminal = Terminal(width=80, record=True, file=(tmp_path / "out").open("w"))
    terminal.print(screen(Book(path)))
    text = terminal.export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    for words in ("application", "objective", "budget", "catch-up", "executors 2 of 1–6", "executors → 5", "clicks"):
        assert words in text


def test_top_prints_json(journal: Path) -> None:
    found = CliRunner().invoke(app, ["top", str(journal), "--json"])
    assert json.loads(found.stdout)["steps"] == 260


def test_a_report_is_one_file_that_loads_nothing(journal: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["report", str(journal), "--out", str(tmp_path), "--json"])
    text = Path(json.loads(found.stdout)["report"]).read_text()
    assert 'src="' not in text
    assert 'href="' not in text.replace('href="data:', "")
    assert "import {" not in text
    data = text.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["journals"][0]["overview"]["steps"] == 260


def test_figures_cannot_end_the_script_they_are_in(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    book = Book(write(tmp_path / "evil.db", steps(3, (evil,))))
    text = page({"journals": [figures(book)]}, evil)
    assert "<script>alert" not in text


@pytest.mark.parametrize("command", ["console", "report", "top"])
def test_a_file_that_is_no_journal_is_refused_in_a_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("nothing of ours")
    for path in (tmp_path / "other.db", tmp_path / "missing.db"):
        found = CliRunner().invoke(app, [command, str(path)])
        assert isinstance(found.exception, InvalidInput)
        assert "journal" in str(found.exception)


def test_an_address_that_is_none_is_refused_in_a_line(journal: Path) -> None:
    found = CliRunner().invoke(app, ["console", str(journal), "--otlp", "collector"])
    assert isinstance(found.exception, InvalidInput)
    assert "--otlp collector" in str(found.exception)
