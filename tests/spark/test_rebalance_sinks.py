"""Sinks that know their batches by number lose nothing when a rebalance fails after a batch has reached them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DELTA_JARS = os.environ.get("TIDEGATE_DELTA_JARS", "")


@pytest.mark.parametrize(
    "sink",
    [
        "parquet",
        pytest.param(
            "delta",
            marks=pytest.mark.skipif(
                not DELTA_JARS,
                reason="set TIDEGATE_DELTA_JARS to the jars of a Delta Lake that works with this Spark, with commas",
            ),
        ),
    ],
)
def test_a_batch_that_reached_the_sink_is_not_dropped(tmp_path: Path, sink: str) -> None:
    command = [sys.executable, "-m", "tests.spark.rebalance_sink", str(tmp_path), sink]
    done = subprocess.run(
        [*command, *([DELTA_JARS] if sink == "delta" else [])], cwd=ROOT, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    words = done.stdout.splitlines()[-1].split()
    assert int(words[1]) > 0
    assert words[2:] == ["lost", "0", "doubled", "0"], done.stdout
