"""Executors with a CPU quota each: their tasks, in Java and in Python, get no more CPU than that."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tidegate.adapters.host.shares import ProcessGroups
from tidegate.adapters.spark.executorquota import executor_quota

CPUS, BURNS_S = 0.4, 6.0

JOB = """
import json, sys, time
import pyarrow as pa
from tidegate.adapters.spark.embedded import embedded_session
from tidegate.adapters.spark.executorquota import executor_quota
from tidegate.adapters.spark.executors import settle_executors

cpus, burns_s = float(sys.argv[1]), float(sys.argv[2])

def burn(batches):
    for _ in batches:
        from pathlib import Path
        group = Path("/proc/self/cgroup").read_text()
        until_s, before_s = time.monotonic() + burns_s, time.process_time()
        while time.monotonic() < until_s:
            pass
        yield pa.RecordBatch.from_pylist([{"cpu_s": time.process_time() - before_s, "group": group}])

with executor_quota(cpus, 1) as quota:
    with_groups = quota.group
    spark = embedded_session("quota", 1, 1, slots=2, memory_mb=640, settings=dict(quota.settings))
    settle_executors(spark, 1)
    rows = spark.range(0, 2, 1, 2).mapInArrow(burn, "cpu_s double, group string").collect()
    spark.stop()
print(json.dumps({"cpu_s": [row.cpu_s for row in rows], "groups": [row.group for row in rows],
                  "nursery": str(with_groups), "left": with_groups.exists()}))
"""


def test_the_tasks_of_an_executor_get_no_more_than_its_quota() -> None:
    """In a process of its own, because the session is another one."""
    able = ProcessGroups(guardian=False).capabilities()[0]
    if not able.able:
        pytest.skip(f"executors cannot get a CPU quota here: {able.reason}")
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(CPUS), str(BURNS_S)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert all(found["nursery"].rsplit("/", 1)[1] in group for group in found["groups"])
    assert 0.2 * CPUS * BURNS_S < sum(found["cpu_s"]) < 1.1 * CPUS * BURNS_S
    assert not found["left"]


def test_without_control_groups_executors_have_no_quota(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidegate.adapters.host.cgroups.CgroupFiles.may_make_in", lambda self, path: False)
    with executor_quota(CPUS, 1) as quota:
        assert quota.settings == {}
        assert not quota.capability.able
    assert "executors have no CPU quota" in caplog.text
