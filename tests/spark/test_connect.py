"""A client of Spark Connect, against a real server: Tidegate observes its queries and recommends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs grpcio")


def test_a_client_is_observed_and_gets_recommendations(tmp_path: Path) -> None:
    """The query needs 2.8 slots; the server has two."""
    job = Path(__file__).with_name("connect_job.py")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # else the server takes the system's Python
    done = subprocess.run(
        [sys.executable, str(job), str(tmp_path / "client.db")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    line = next((line for line in done.stdout.splitlines() if line.startswith("FOUND")), None)
    assert line is not None, done.stderr[-3000:]
    found = json.loads(line.removeprefix("FOUND"))
    assert found["failure"] is None
    assert found["mode"] == "recommend", "the policy says apply"
    assert "does not act" in done.stderr
    assert "can only be observed" in found["start"]
    assert found["capabilities"] == {
        "observe": True, "executors": False, "admission": False, "state": False, "pools": False
    }  # fmt: skip
    assert found["batches"] >= 2
    assert found["rows"] > 1000
    assert {"busy_s", "interval_s", "latency"} <= set(found["estimated"])
    assert found["wanted"], "more executors are recommended"
    assert found["receipts"] == 0, "and nothing is done"
