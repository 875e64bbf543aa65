"""Runs the suite in a process of its environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.versions.clusters import CLUSTERS
from tests.versions.environments import ROOT, Environment

SUITE = Path(__file__).with_name("suite.py")
_WAIT_S = 1800
_CHECK = (": yes (", ": no (", ": failed (")


def run_suite(
    environment: Environment, cluster: str, checks: tuple[str, ...] = (), say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """What the suite found; `NoEnvironment` where the cluster cannot be started here."""
    with tempfile.TemporaryDirectory(prefix="tidegate-versions-") as folder:
        scratch = Path(folder)
        with CLUSTERS[cluster](environment, scratch) as where:  # type: ignore[attr-defined]
            command = [str(environment.python), str(SUITE), "--master", where.master, "--scratch", str(scratch / "job")]
            command += [part for check in checks for part in ("--check", check)]
            command += [part for pair in where.settings.items() for part in ("--setting", "=".join(pair))]
            variables = {**os.environ, **where.variables, "PYTHONPATH": str(ROOT / "src")}
            done = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=_WAIT_S, check=False, cwd=scratch
            )
    lines = done.stdout.strip().splitlines()
    for line in lines:
        if any(mark in line for mark in _CHECK):
            say(line)
    if done.returncode != 0 or not lines or not lines[-1].startswith("{"):
        said = [line for line in done.stderr.strip().splitlines() if line] or ["nothing"]
        raise AssertionError(f"the suite ended with code {done.returncode}: {said[-1]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def failures(runs: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """Checks that failed: neither done nor refused with a reason."""
    return [
        f"Spark {spark} on {cluster}: {one['check']}: {one['note']}"
        for (spark, cluster), found in runs.items()
        for one in found.get("checks", ())
        if one["failed"]
    ]
