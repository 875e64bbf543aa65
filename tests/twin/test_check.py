"""Calibrated on one run, the twin predicts another, in a world that it knows from a journal alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app


@pytest.mark.slow
def test_a_run_with_another_load_and_size_is_predicted(tmp_path: Path) -> None:
    arguments = ["reproduce", "twin", "--world", "sim", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    predicted, measured = found["predicted"], found["measured"]
    assert set(found) == {"predicted", "measured"}
    assert set(predicted) == set(measured) == {"late", "executor_seconds", "p99_s"}
    assert 0.02 <= measured["late"] <= 0.3
    assert predicted["late"] == pytest.approx(measured["late"], abs=0.03)
    assert predicted["executor_seconds"] == pytest.approx(measured["executor_seconds"], rel=0.1)
    assert predicted["p99_s"] == pytest.approx(measured["p99_s"], rel=0.25)
