"""Delta tables as source and sink of plain queries: limits in files, pauses, the same results, rescales."""

from __future__ import annotations

import json
from pathlib import Path

from tests.spark.delta import run_on_delta


def test_delta_tables_are_limited_in_files_paused_and_rescaled(tmp_path: Path) -> None:
    done = run_on_delta("tests.spark.delta_job", str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["whole"][0] == 60, "without a limit, all six files at once"
    assert found["parts"] == [10] * 6, "a limit of one row is one file"
    assert (found["same"], found["rows"]) == (True, 60), "the first version is an hour ahead of the others"
    assert found["paused"]
    assert found["resumed"]
    assert found["own"] == 20, "the user's own limit of two files is never widened"
    assert (found["counted"], found["counts"]) == (70, [1]), "every row once, though the state moved"
