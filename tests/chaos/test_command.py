"""`tidegate chaos`: what it says and how it exits, with the run itself replaced."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate.cli.app import main

FOUND: dict[str, Any] = {
    "faults": [
        {"kind": "executor-killed", "at_s": 3.0, "recovered_s": 11.5, "control_gap_s": 1.2},
        {"kind": "journal-locked", "at_s": 40.0, "recovered_s": 0.0, "control_gap_s": 1.1},
    ],
    "rows_in": 9000,
    "rows_lost": 0,
    "rows_doubled": 0,
    "overlaps": 0,
    "left_out": {"network-cut": "there is no ip command: install iproute2"},
}


def exit_code(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tidegate", "chaos", *words])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_it_prints_the_document_or_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tidegate_lab.experiments.chaos.run", lambda *_: FOUND)
    assert exit_code(monkeypatch, "--json") == 0
    assert json.loads(capsys.readouterr().out) == FOUND
    assert exit_code(monkeypatch) == 0
    printed = capsys.readouterr()
    assert "9000 rows in: 0 lost, 0 doubled; 0 overlaps" in printed.out
    assert "skipped: network-cut (there is no ip command" in printed.out
    assert "11.5 s" in printed.err


@pytest.mark.parametrize(
    "worse",
    [
        {"rows_lost": 1},
        {"rows_doubled": 1},
        {"overlaps": 1},
        {"faults": [{"kind": "host-killed", "at_s": 3.0, "recovered_s": None, "control_gap_s": 1.2}]},
    ],
)
def test_whatever_did_not_hold_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, worse: dict[str, Any]) -> None:
    monkeypatch.setattr("tidegate_lab.experiments.chaos.run", lambda *_: {**FOUND, **worse})
    assert exit_code(monkeypatch) == 1


def test_without_kafka_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA", str(tmp_path))
    assert exit_code(monkeypatch, "--out", str(tmp_path / "out")) == 2
    assert "TIDEGATE_KAFKA: no jars in" in capsys.readouterr().err
    monkeypatch.delenv("TIDEGATE_KAFKA")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert exit_code(monkeypatch, "--out", str(tmp_path / "out")) == 2
    assert "install mvn" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
