"""Two Spark hosts on this machine: an application is moved, its new host is killed, and every row counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import wait_for
from tidegate.control.journal import read_entries
from tidegate.domain import MoveApplication
from tidegate.fleet.evidence import committed_rows, overlaps, runs
from tidegate.fleet.folder import FleetFolder
from tidegate_lab.workloads.wordcount import check_rows, expected_counts, state_counts

APPLICATIONS = {"words-east": "east", "words-west": "west"}
FILE = """
regions: {east: {min_hosts: 1, max_hosts: 1}, west: {min_hosts: 1, max_hosts: 1}}
host: {slots: 2, memory_mb: 512}
scheduler: best-fit
timing: {lease_s: 20, lost_after_s: 15, start_limit_s: 400}
"""


def fleet(folder: Path, *words: str) -> Any:
    wait = () if words[0] == "status" else ("--wait", "400")
    command = [sys.executable, "-m", "tidegate.cli.fleet", *words, *wait, "--fleet", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FleetFolder]:
    place = FleetFolder(tmp_path / "fleet")
    file = tmp_path / "fleet.yaml"
    file.write_text(FILE)
    brought = fleet(place.root, "up", str(file))
    assert sorted(brought["ready"]) == ["east-1", "west-1"]
    yield place
    fleet(place.root, "down")
    assert not place.cards()


def submit(folder: FleetFolder, name: str, region: str) -> None:
    arguments = {
        "load": {"kind": "constant", "rate": 40},
        "start_ms": int(time.time() * 1000),
        "lookup_s": 0.001,
        "trigger_s": 2.0,
    }
    words = ["--name", name, "--region", region, "--slots", "0.4", "--arguments", json.dumps(arguments)]
    running = fleet(folder.root, "submit", "tidegate_lab.experiments.fleet_run:build", *words)
    assert running["running"], running
    assert running["host"] == f"{region}-1"


def more_rows(folder: FleetFolder, name: str) -> None:
    """Wait for a batch that is not committed yet."""
    before = committed_rows(folder, name)
    wait_for(lambda: committed_rows(folder, name) > before, f"another batch of {name}")


def test_a_move_and_a_killed_host_lose_and_double_nothing(spark: SparkSession, folder: FleetFolder) -> None:
    for name, region in APPLICATIONS.items():
        submit(folder, name, region)
    more_rows(folder, "words-east")
    moved = fleet(folder.root, "move", "words-east", "west-1")
    assert moved["running"], moved
    assert moved["host"] == "west-1"
    more_rows(folder, "words-east")
    card = folder.read_card("west-1")
    assert card is not None
    os.kill(card.pid, signal.SIGKILL)
    for name in APPLICATIONS:
        wait_for(lambda name=name: runs(folder, name)[-1].host != "west-1", f"another host for {name}")
        more_rows(folder, name)
    assert [run.host for run in runs(folder, "words-east")][:2] == ["east-1", "west-1"]

    def phases() -> dict[str, str]:
        return {app["application"]: app["phase"] for app in fleet(folder.root, "status")["applications"]}

    wait_for(lambda: phases() == dict.fromkeys(APPLICATIONS, "running"), "both to be seen running")
    host, centre = read_entries(folder.host_journal("east-1")), list(read_entries(folder.centre_journal))
    watched = {sample.name for entry in host if entry.observation for sample in entry.observation.applications}
    assert watched >= {"words-east"}, "a host journals what it sees and decides, as a single job does"
    moves = [one for entry in centre if entry.decision for one in entry.decision.actions]
    assert MoveApplication("words-east", "east-1") in moves
    for name in APPLICATIONS:
        assert fleet(folder.root, "withdraw", name)["ended"]
        assert overlaps(runs(folder, name)) == []
        rows = committed_rows(folder, name)
        check = check_rows(state_counts(spark, str(folder.checkpoint(name))), expected_counts(rows))
        assert (check.rows_out, check.rows_lost, check.rows_doubled) == (rows, 0, 0)
