"""Tables fit a terminal of 80 columns, headings and all."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tidegate.cli import explain, output
from tidegate.evaluate.violations import ClassReport
from tidegate_lab.commands import demo


def printed(table: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    return out.getvalue()


def whole(text: str) -> bool:
    return "…" not in text and max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_the_demo_cuts_none_of_its_headings() -> None:
    class Result:
        p50_s, p99_s, violation_rate, executor_seconds = 123.4, 1234.5, 0.4567, 123456.0
        rows_in, rows_lost, rows_doubled, reconfigurations = 12_345_678, 123, 123, 123

    class Record:
        name, result = "static-peak", Result()

    text = printed(demo._table([Record()]))  # type: ignore[list-item]
    assert whole(text)
    assert "executor-s" in text


def test_classes_fit() -> None:
    report = ClassReport(
        name="a-rather-long-class-name",
        latency_s=12.5,
        bound=0.05,
        rows=123_456_789.0,
        late_share=0.1234,
        window_share=0.2345,
        worst_share=0.3456,
        worst_p99_s=123.4,
        incidents=12,
        last_incident_s=None,
    )
    assert whole(printed(explain._class_table([report])))


def headings() -> list[tuple[str, list[str]]]:
    """The headings of every table that a command prints, as they stand in the source."""
    found = []
    folders = Path(output.__file__).parents[1], Path(demo.__file__).parents[1]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "able(" in text else ():  # most files print no table
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith(("output.table", "Table")):
                continue
            words = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if len(words) == len(node.args) > 2:
                found.append((f"{path.stem}:{node.lineno}", words))
    return found


@pytest.mark.parametrize(("where", "words"), headings())
def test_no_heading_is_cut(where: str, words: list[str]) -> None:
    table = output.table(*words)
    table.add_row("a-name-of-20-letters", *("1234.5",) * (len(words) - 1))
    text = printed(table)
    assert whole(text), text
    assert all(word in text for word in " ".join(words[1:]).split()), text
