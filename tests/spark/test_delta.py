"""Delta tables as source and sink of plain queries: limits in files, pauses, the same results, rescales."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tidegate.experiments.maven import Artifact, cached, can_fetch, fetched

DELTA = (
    Artifact("io.delta", "delta-spark_4.1_2.13", "4.3.0"),
    Artifact("io.delta", "delta-storage", "4.3.0"),
)
"""The newest there is. Made for Spark 4.1, it runs on 4.2; on 4.3 it writes tables and cannot read them."""
FOLDER = f"delta-{DELTA[0].version}"
ROOT = Path(__file__).parents[2]
WITH_SOURCE = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}


def python_with_spark_4_2() -> str:
    """A Python with Spark 4.2, where somebody names one; `make test-versions` makes such environments."""
    python = os.environ.get("TIDEGATE_DELTA_PYTHON")
    if python is None:
        pytest.skip("Delta does not run on Spark 4.3 yet: TIDEGATE_DELTA_PYTHON names a Python with Spark 4.2")
    importing = [python, "-c", "import tidegate.adapters.spark.attach"]
    if subprocess.run(importing, capture_output=True, check=False, env=WITH_SOURCE).returncode:
        pytest.skip(f"{python} cannot import tidegate's adapter for Spark")
    return python


def test_delta_tables_are_limited_in_files_paused_and_rescaled(tmp_path: Path) -> None:
    if not can_fetch() and not cached(FOLDER).is_dir():
        pytest.skip("Delta comes from Maven: install mvn")
    python = python_with_spark_4_2()
    jars = ",".join(sorted(str(path) for path in fetched(FOLDER, DELTA).glob("*.jar")))
    job = [python, "-m", "tests.spark.delta_job", jars, str(tmp_path)]
    done = subprocess.run(job, capture_output=True, text=True, check=False, timeout=240, env=WITH_SOURCE)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["whole"][0] == 60, "without a limit, all six files at once"
    assert found["parts"] == [10] * 6, "a limit of one row is one file"
    assert (found["same"], found["rows"]) == (True, 60), "the first version is an hour ahead of the others"
    assert found["paused"]
    assert found["resumed"]
    assert found["own"] == 20, "the user's own limit of two files is never widened"
    assert (found["counted"], found["counts"]) == (70, [1]), "every row once, though the state moved"
