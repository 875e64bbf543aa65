"""Commands print the JSON that they promise, and nothing else, to stdout; pictures go where --out says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(*arguments: str) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_version() -> None:
    assert set(printed("version")) == {"tidegate", "pyspark", "python"}


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["tidegate", "rstorm", "round-robin"])
def test_schedule(scheduler: str, tmp_path: Path) -> None:
    result = printed(
        "schedule", str(EXAMPLES / "instance.json"), "--scheduler", scheduler, "--out", str(tmp_path / "new")
    )
    promised = {"assignment", "used_hosts", "lower_bound", "utilisation", "overload", "migrations", "seconds"}
    assert promised <= set(result)
    assert len(set(result["assignment"].values())) == result["used_hosts"] >= result["lower_bound"]
    assert (tmp_path / "new" / "schedule.png").stat().st_size > 10_000


def test_islands_are_the_same_whichever_number_is_asked_twice() -> None:
    arguments = ("schedule", str(EXAMPLES / "instance.json"), "--islands", "2")
    assert printed(*arguments)["assignment"] == printed(*arguments)["assignment"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["burst", "four-signals", "two-regions"])
def test_simulate_the_examples(name: str, tmp_path: Path) -> None:
    summary = printed("simulate", str(EXAMPLES / "scenarios" / f"{name}.yaml"), "--out", str(tmp_path))
    assert summary["duration_s"] > 0
    assert "simulated seconds" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "simulation.json").read_text())["summary"] == summary


@pytest.mark.slow
def test_a_steered_pool_is_late_less_often_than_an_unsteered_one() -> None:
    burst = str(EXAMPLES / "scenarios" / "burst.yaml")
    steered, alone = printed("simulate", burst), printed("simulate", burst, "--controller", "none")
    late = [summary["pool"]["applications"]["words"]["latency"]["p99_s"] for summary in (steered, alone)]
    assert late[0] < late[1] / 3


def test_the_four_signals_pair_up(tmp_path: Path) -> None:
    report = printed("reproduce", "four-signals", "--out", str(tmp_path))
    assert report["opposite_phases_share_a_host"]
    assert report["late_queue_slope_rows_per_s"] == pytest.approx(-2.0, abs=0.05)
    assert (tmp_path / "four-signals.png").stat().st_size > 10_000


def test_a_policy_is_shown_whole() -> None:
    whole = printed("policy", str(EXAMPLES / "policy.yaml"))
    assert whole["objective"] == {"latency_s": 8.0, "percentile": 0.99}
    assert whole["guards"]["disruptions_per_hour"] == 30, "defaults are filled in"
    assert whole["applications"]["backfill"]["class"] is None


def test_every_command_has_help_with_an_example() -> None:
    for command in ("demo", "run", "simulate", "schedule", "reproduce", "explain", "policy", "version"):
        shown = CliRunner().invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert f"Example: tidegate {command}" in shown.stdout
