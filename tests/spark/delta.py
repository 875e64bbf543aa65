"""Delta Lake for tests: its jars, and a Python with the newest Spark that it runs on."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.versions.environments import ROOT, NoEnvironment, environment
from tidegate_lab.experiments.maven import Artifact, cached, can_fetch, fetched

DELTA = (
    Artifact("io.delta", "delta-spark_4.1_2.13", "4.3.0"),
    Artifact("io.delta", "delta-storage", "4.3.0"),
)
"""The newest there is. Made for Spark 4.1, it runs on 4.2; on 4.3 it writes tables and cannot read them."""
SPARK = "4.2"
FOLDER = f"delta-{DELTA[0].version}"


def run_on_delta(module: str, *arguments: str, limit_s: float = 1200.0) -> subprocess.CompletedProcess[str]:
    """Run a module with Delta's jars as its last argument; the test is skipped where Delta cannot be had."""
    if not can_fetch() and not cached(FOLDER).is_dir():
        pytest.skip("Delta comes from Maven: install mvn")
    try:
        python = environment(SPARK, "spark").python
    except NoEnvironment as why:
        pytest.skip(f"Delta does not run on Spark 4.3 yet, and there is no Spark {SPARK}: {why}")
    jars = ",".join(sorted(str(path) for path in fetched(FOLDER, DELTA).glob("*.jar")))
    source = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [str(python), "-m", module, *arguments, jars]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit_s, env=source)
