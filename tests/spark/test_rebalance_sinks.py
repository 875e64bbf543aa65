"""Sinks that know their batches by number lose nothing when a rebalance fails after a batch has reached them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.delta import run_on_delta

ROOT = Path(__file__).parents[2]
MODULE = "tests.spark.rebalance_sink"


def test_a_batch_that_reached_a_file_sink_is_not_dropped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", MODULE, str(tmp_path), "parquet"]
    check_counts(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200))


def test_a_batch_that_reached_a_delta_table_is_not_dropped(tmp_path: Path) -> None:
    check_counts(run_on_delta(MODULE, str(tmp_path), "delta"))


def check_counts(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    words = done.stdout.splitlines()[-1].split()
    assert int(words[1]) > 0
    assert words[2:] == ["lost", "0", "doubled", "0"], done.stdout
