"""Control ends in the middle of a run: limits and pools are what they were, and the queries go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, time
from pathlib import Path
from tidegate.domain import SetAdmission, SetShare, Targets
from tidegate_lab.experiments.qos_plan import own_session
from tidegate.load import Constant
from tidegate.adapters.spark.attach import attach
from tidegate_lab.workloads.gsm import Gsm

def wait(condition):
    deadline_s = time.monotonic() + 300
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.1)

spark = own_session("switched-off")
policy = {
    "journal": {"path": "gate.db"}, "interval_s": 0.5,
    "classes": {"q1": {"weight": 6}, "q3": {"weight": 1}},
    "applications": {"q1-md5": {"class": "q1"}, "q3-md5": {"class": "q3"}},
}
gate = attach(spark, policy)
gate.runner.mode = "off"  # the test decides
query = gate.start("q1-md5", Gsm("md5", Constant(rate=200), trigger_s=0.5, source_tasks=1).build)
pools = gate.cluster.pools
wait(lambda: pools.in_force("q1") is not None and query.gated)
gate.cluster.converge(Targets().after([SetShare("q1", 0.6), SetAdmission("q1-md5", 7)]))
wait(lambda: query.gate_answer.admission.rows_per_trigger == 7)
found = {"during": [pools.in_force("q1").min_share, query.gate_answer.admission.rows_per_trigger]}
gate.stop()
wait(lambda: query.gate_answer.admission.rows_per_trigger is None)
found["after"] = [pools.in_force("q1").min_share, query.gate_answer.admission.rows_per_trigger]
found["gate_file"] = Path(query.settings.gate).exists()
found["active"] = query.query.isActive
print("FOUND", json.dumps(found), flush=True)
query.query.stop()
spark.stop()
"""


def test_switched_off_mid_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("FOUND")), None)
    assert line is not None, done.stderr[-2000:]
    assert json.loads(line.removeprefix("FOUND")) == {
        "during": [2, 7],
        "after": [0, None],
        "gate_file": False,
        "active": True,
    }
