"""A controller must not be graded by its own models, and the simulator must work where there is no Spark."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate.adapters.sim

FILES = sorted(Path(tidegate.adapters.sim.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_simulator_imports_neither_the_controllers_models_nor_spark(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    banned = ("tidegate.model", "tidegate.plan", "tidegate.evaluate", "tidegate.adapters.spark", "pyspark")
    assert not [name for name in imported if name.startswith(banned)]


def test_the_plant_knows_nothing_of_control() -> None:
    core = {"state", "kernels", "plant", "latency", "gate", "executors", "application", "faults", "cluster"}
    core |= {"poolworld", "knobs", "slots", "driver", "lanes", "sharing", "partitions", "restart", "ledger", "stage"}
    for path in FILES:
        if path.stem in core:
            assert "tidegate.control" not in path.read_text(encoding="utf-8"), path.name


def test_the_world_behind_the_port_needs_no_compiler() -> None:
    program = """
import sys
sys.modules["numba"] = None
from tidegate.adapters.sim import SimApplication, SimCluster
cluster = SimCluster([SimApplication("app", 100)])
cluster.advance_to(10.0)
print(cluster.summary()["applications"]["app"]["batches"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) >= 5
