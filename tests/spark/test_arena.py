"""A very short tournament on Spark: a fixed pool and a controller, on executors with a CPU quota where permitted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

JOB = """
import json, sys
from pathlib import Path
import numpy as np
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.setting import Setting
from tidegate_lab.arena.sparkplan import SparkPlan, hold_on_spark
from tidegate_lab.arena.sparkplay import SparkGround
from tidegate_lab.arena.sparkprogram import row_work

load = ArenaLoad("short", np.array([2.0, 3.0]), step_s=4.0)
setting = Setting(slots_per_executor=1, peak_executors=2, most_executors=2, row_cost_s=0.002, objective_s=8.0)
plan = SparkPlan(setting, load, ("static-holds", "amadeus"), sizes=(1,))
tournament = hold_on_spark(plan, SparkGround(plan, row_work(0.6), Path(sys.argv[1])))
print(json.dumps({**tournament.to_dict(), "sizes": [run.sizes for run in tournament.runs],
                  "rows": [sum(run.timeline.rows_per_s) for run in tournament.runs]}))
"""


def test_a_fixed_pool_and_a_controller_play_the_same_rows(tmp_path: Path) -> None:
    """In a process of its own, because every run has its own session."""
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert [run["rival"] for run in found["runs"]] == ["static-holds", "static-1", "amadeus"]
    for run in found["runs"]:
        assert (run["rows_lost"], run["rows_doubled"]) == (0, 0)
        assert run["p99_s"] > 0
    assert found["rows"][0] == found["rows"][2] > 0
    assert found["sizes"][0] == [[0.0, 1]]
    assert found["runs"][0]["executor_seconds"] == 16.0  # the load, and one objective after it
    assert (tmp_path / "amadeus.db").exists()
