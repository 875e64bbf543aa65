"""The transaction is killed at every one of its steps in turn, and inside them; another process goes on from there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tidegate.adapters.spark.transaction import Step

ROOT = Path(__file__).parents[2]
WALK = [
    *(step.value for step in Step if step not in {Step.ROLLING_BACK, Step.ROLLED_BACK}),
    "in repartition",
    "recovery state",  # recovers from the kill before, and is killed over it
    "rollback commits",
    "rollback state",
    "rollback offsets",
    "rolling back",
]


def victim(folder: Path, where: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.spark.rebalance_victim", str(folder), where]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)


def test_counts_stay_exact_when_killed_at_every_step(tmp_path: Path) -> None:
    """One query lives through all the kills. Its state is in changelogs, which do not overwrite a wrong snapshot."""
    for where in WALK:
        done = victim(tmp_path, where)
        for _ in range(4):  # a moment that a busy machine may let pass; the query then goes on with its new state
            if where == "in repartition" and "was never reached" in done.stderr:
                done = victim(tmp_path, where)
        assert done.returncode == -signal.SIGKILL, f"{where}: {done.stdout[-500:]}{done.stderr[-2000:]}"
    last = victim(tmp_path, "none")
    assert last.returncode == 0, last.stderr[-2000:]
    words = last.stdout.split()
    assert int(words[1]) > 0
    assert words[2:] == ["lost", "0", "doubled", "0"]
