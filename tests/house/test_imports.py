"""What a driver has loaded when the first decision is made: nothing heavy, whatever is installed beside Tidegate."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]
HEAVY = {"numba", "scipy", "sklearn", "river", "matplotlib", "pandas", "pyarrow"}
RESTARTS = {"restartablequery", "rebalance", "transaction", "checkpoint", "statedigest"}

FIRST_DECISIONS = """
import json, sys
import tidegate
attach = tidegate.attach
from tests.house.driver import Overload
world = Overload()
while not world.driver.requested:
    world.tick()
print(json.dumps([world.driver.requested, sorted(sys.modules)]))
"""


def test_a_driver_decides_without_heavy_libraries() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_DECISIONS], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    requested, modules = json.loads(done.stdout)
    assert requested == [2], "a decision was made and carried out"
    assert HEAVY & set(modules) == set()
    restarts = {f"tidegate.adapters.spark.{name}" for name in RESTARTS}
    assert restarts & set(modules) == set(), "only a job whose queries Tidegate starts needs them"


def test_the_package_alone_loads_next_to_nothing() -> None:
    """A file that imports `tidegate` where PySpark is missing pays for what it uses only."""
    code = "import json, sys, tidegate; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not {"numpy", "pydantic", "pyspark"} & set(json.loads(done.stdout))


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A part whose module is missing. Afterwards garbage is collected as before."""
    monkeypatch.setitem(tidegate._HOMES, "tidegate.nowhere", ("Nothing",))
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_loading_a_part_leaves_garbage_collection_as_it_was(collecting: bool, frozen: bool) -> None:
    (gc.enable if collecting else gc.disable)()
    if frozen:
        gc.freeze()
    assert tidegate.Policy
    with pytest.raises(ModuleNotFoundError):
        assert tidegate.Nothing
    assert gc.isenabled() is collecting
    assert bool(gc.get_freeze_count()) is frozen


def test_loading_a_part_causes_no_search_for_garbage() -> None:
    code = """
import gc, tidegate
gc.collect()
before = [generation["collections"] for generation in gc.get_stats()]
tidegate.Policy
after = [generation["collections"] for generation in gc.get_stats()]
print(before == after, gc.get_count()[0] < 700)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_everything_that_is_exported_is_there_with_a_docstring() -> None:
    for name in tidegate.__all__:
        part = getattr(tidegate, name)
        assert name.startswith("__") or part.__doc__, f"{name} says what it is for"
