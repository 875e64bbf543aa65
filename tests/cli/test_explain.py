"""The explanation: steps that act stand alone, stretches of holding are told once."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.core.test_journal import played
from tests.core.worlds import simulated
from tidegate.cli.app import app
from tidegate.cli.explain import summarise
from tidegate.control.journal import SqliteJournal
from tidegate.domain import Mode
from tidegate.domain.policy import Policy
from tidegate.load import Burst


def test_every_step_is_accounted_for() -> None:
    _, entries = simulated(Burst(base=300, peak=1500, start_s=30, duration_s=60), Policy(), until_s=240)
    stretches = list(summarise(entries))
    assert sum(stretch.steps for stretch in stretches) == len(entries)
    acted = [stretch for stretch in stretches if "executors →" in stretch.outcome]
    assert acted
    assert all("executors →" in stretch.outcome for stretch in acted)
    assert len(stretches) < len(entries) / 2
    assert len(list(summarise(entries, apart=True))) == len(entries)


def test_it_tells_what_was_held_and_why(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    played(Mode.RECOMMEND, journal, rows=9000, most=8)
    journal.note(2000.0, "control-ended", "stopped")
    shown = CliRunner().invoke(app, ["explain", str(journal.path)])
    assert shown.exit_code == 0
    assert "recommended: executors → 4" in shown.stdout
    assert "9000 rows/s at 5.00 ms" in " ".join(shown.stdout.split())
    assert "step-size" in shown.stdout
    assert "control-ended: stopped" in shown.stdout
    plain = json.loads(CliRunner().invoke(app, ["explain", str(journal.path), "--json"]).stdout)
    assert sum(step["steps"] for step in plain["steps"]) == 12


def test_an_empty_journal_is_no_error(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "j.db")
    shown = CliRunner().invoke(app, ["explain", str(tmp_path / "j.db")])
    assert "empty" in shown.stdout
