"""`tidegate run`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(app: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate.cli", "run", str(app), "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_the_example_runs_and_can_be_explained(tmp_path: Path) -> None:
    policy = str(EXAMPLES / "policy.yaml")
    done = run(EXAMPLES / "wordcount.py", tmp_path, "--policy", policy, "--duration", "20", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads(done.stdout)
    assert summary["steps"] > 5
    assert summary["control_failure"] is None
    explained = subprocess.run(
        [sys.executable, "-m", "tidegate.cli", "explain", summary["journal"]],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "control-started: mode recommend" in explained.stdout
    assert "wordcount:" in explained.stdout


def test_a_query_that_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    app = tmp_path / "fails.py"
    app.write_text(
        "from pyspark.sql import functions as F\n"
        "def build(spark, settings):\n"
        "    rows = spark.readStream.format('rate').load().select(F.raise_error(F.lit('the shop is closed')))\n"
        "    return rows.writeStream.format('noop').option('checkpointLocation', settings.checkpoint)\n"
    )
    done = run(app, tmp_path / "out", "--mode", "off")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip().splitlines()[-1].startswith("tidegate: query fails failed: ")
