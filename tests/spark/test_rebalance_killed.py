"""The transaction is killed at every one of its steps in turn; each time another process goes on from there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tidegate.spark.rebalance import Step

VICTIM = Path(__file__).with_name("rebalance_victim.py")
WALK = [step for step in Step if step not in {Step.ROLLING_BACK, Step.ROLLED_BACK}]


def victim(folder: Path, die_at: str, partitions: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(VICTIM), str(folder), die_at, str(partitions)], capture_output=True, text=True, timeout=240
    )


def test_counts_stay_exact_when_killed_at_every_step(tmp_path: Path) -> None:
    """One query lives through all the kills: each process recovers from the last one's and dies one step later."""
    for number, step in enumerate(WALK):
        done = victim(tmp_path, step.value, partitions=3 if number % 2 == 0 else 4)
        assert done.returncode == -signal.SIGKILL, f"{step}: {done.stdout[-500:]}{done.stderr[-2000:]}"
    last = victim(tmp_path, "none", partitions=0)
    assert last.returncode == 0, last.stderr[-2000:]
    words = last.stdout.split()
    assert int(words[1]) > 0
    assert words[2:] == ["lost", "0", "doubled", "0"]
