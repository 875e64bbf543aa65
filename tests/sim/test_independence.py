"""A controller must not be graded by its own models, and the simulator must work where there is no Spark."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tidegate.sim

FILES = sorted(Path(tidegate.sim.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_simulator_imports_neither_the_controllers_models_nor_spark(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    banned = ("tidegate.model", "tidegate.planning", "tidegate.monitor", "tidegate.spark", "pyspark")
    assert not [name for name in imported if name.startswith(banned)]


def test_the_plant_knows_nothing_of_control() -> None:
    core = {"state", "kernels", "plant", "latency", "gate", "executors", "application", "faults", "cluster"}
    for path in FILES:
        if path.stem in core:
            assert "tidegate.control" not in path.read_text(encoding="utf-8"), path.name
