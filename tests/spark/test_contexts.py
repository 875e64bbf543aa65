"""Contexts other than the shared one, each in a process of its own: dynamic allocation, local masters, taken ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

PRELUDE = """
import os, sys, time
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import tidegate
from tidegate.domain import InvalidInput, Targets
from tidegate.adapters.spark import executors
from tidegate.adapters.spark.executors import ExecutorPoolKeeper
"""


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_dynamic_allocation_is_refused_or_taken_over_as_the_policy_says(tmp_path: Path) -> None:
    done = run(
        """
        spark = (
            SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
            .config("spark.dynamicAllocation.enabled", "true")
            .config("spark.dynamicAllocation.shuffleTracking.enabled", "true")
            .config("spark.dynamicAllocation.minExecutors", "1")
            .config("spark.dynamicAllocation.maxExecutors", "2").getOrCreate()
        )
        try:
            tidegate.attach(spark, {"journal": {"path": "a.db"}})
        except InvalidInput as error:
            print("refused:", error)
        watched = tidegate.attach(spark, {"journal": {"path": "b.db"}, "mode": "recommend"})
        watched.stop()
        policy = {"journal": {"path": "c.db"}, "dynamic_allocation": "take-over", "interval_s": 0.5}
        gate = tidegate.attach(spark, policy)
        gate.cluster.converge(Targets(executors=2))
        deadline = time.time() + 300
        while gate.cluster.observe().pool.registered != 2 and time.time() < deadline:
            time.sleep(0.5)
        print("registered:", gate.cluster.observe().pool.registered)
        gate.stop()
        spark.stop()
        """,
        tmp_path,
    )
    assert "refused: Spark's dynamic allocation controls" in done.stdout, done.stderr[-2000:]
    assert "dynamic_allocation: take-over" in done.stdout
    assert "registered: 2" in done.stdout, done.stderr[-2000:]


def test_a_local_master_is_watched_and_not_scaled(tmp_path: Path) -> None:
    done = run(
        """
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        gate = tidegate.attach(spark, {"journal": {"path": "a.db"}, "interval_s": 0.2})
        query = spark.readStream.format("rate").load().writeStream.format("noop").queryName("q").start()
        deadline = time.time() + 300
        while time.time() < deadline:
            last = gate.runner.last
            if last and last.observation.applications and last.observation.applications[0].last_progress_s:
                break
            time.sleep(0.2)
        pool = last.observation.pool
        print("seen:", last.observation.applications[0].name, "scalable:", pool.scalable, "slots:", pool.slots)
        spark.stop()
        time.sleep(1)
        print("failure:", gate.failure)
        """,
        tmp_path,
    )
    assert "seen: q scalable: False slots: 2" in done.stdout, done.stderr[-2000:]
    assert "failure: None" in done.stdout, "a stopped context is an end, not a failure"


def test_a_port_in_use_and_a_missing_java_are_said_in_a_line(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("def main(spark, gate): pass\n")
    command = [sys.executable, "-m", "tidegate.cli", "run", str(app), "--out", str(tmp_path / "out")]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = [f"spark.driver.port={port}", "spark.port.maxRetries=0"]
        options = [part for setting in settings for part in ("--spark-conf", setting)]
        busy = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600, check=False)
    assert busy.returncode == 2
    assert busy.stderr.strip().splitlines()[-1].startswith("tidegate: Spark cannot bind its port")
    without = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "JAVA_HOME": "/nowhere"}
    )
    assert without.returncode == 2
    assert "Spark needs Java 17 or newer" in without.stderr.strip().splitlines()[-1]
    assert "apt-get install" in without.stderr
