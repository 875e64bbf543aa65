"""`pip install tidegate` is small, and a command that needs more says in a line what to install."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomllib

import tidegate
import tidegate_lab
from tests.core.freshcommands import FreshCommands
from tidegate.extras import _BROUGHT_BY
from tidegate.laboratory import PARTS

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = {"sklearn": "scikit-learn", "py4j": "pyspark", "opentelemetry": "opentelemetry-sdk"}


@pytest.fixture(scope="module")
def fresh() -> Iterator[FreshCommands]:
    with FreshCommands(laboratory=True) as commands:
        yield commands


@pytest.fixture(scope="module")
def without_laboratory() -> Iterator[FreshCommands]:
    with FreshCommands(laboratory=False) as commands:
        yield commands


def project(folder: str = ".") -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]


def names(needs: object) -> set[str]:
    assert isinstance(needs, list)
    return {re.split(r"[<>=\[; ]", need)[0] for need in needs}


def test_attaching_needs_five_small_libraries() -> None:
    assert names(project()["dependencies"]) == {"numpy", "pydantic", "pyyaml", "rich", "typer"}


@pytest.mark.parametrize("extra", list(_BROUGHT_BY))
def test_an_extra_brings_what_its_hint_promises(extra: str) -> None:
    extras = project()["optional-dependencies"]
    promised = {DISTRIBUTIONS.get(module, module.replace("_", "-")) for module in _BROUGHT_BY[extra]}
    assert promised <= names(extras[extra])


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [
        ("scipy", ["analyze", "."], "scipy is not installed: pip install 'tidegate[analysis]'"),
        ("pyspark", ["demo", "--quick"], "PySpark is not installed: pip install 'tidegate[spark]'"),
        ("uvicorn", ["console", "none.db"], "pip install 'tidegate[console]'"),
    ],
)
def test_a_command_without_its_extra_is_one_line(
    missing: str, arguments: list[str], said: str, tmp_path: Path, fresh: FreshCommands
) -> None:
    done = fresh.run(*arguments, folder=tmp_path, missing=(missing,))
    assert (done.returncode, done.stdout) == (2, "")
    (told,) = done.stderr.strip().splitlines()
    assert told.startswith("tidegate: ")
    assert said in told


def test_product_and_laboratory_are_released_together() -> None:
    assert tidegate_lab.__version__ == tidegate.__version__
    (product,) = [need for need in project("lab")["dependencies"] if need.startswith("tidegate[")]
    assert product.endswith(f"]=={tidegate.__version__}")
    assert (ROOT / "lab" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_lock_file_has_what_the_laboratory_needs() -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names(project("lab")["dependencies"]) - {"tidegate"} <= locked


def test_the_hints_name_every_part_of_the_laboratory() -> None:
    announced = project("lab")["entry-points"]
    assert {f"tidegate.{kind}": set(parts) for kind, parts in PARTS.items()} == {
        group: set(points) for group, points in announced.items()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *((f"{command} --help --out x --json y", f"tidegate {command} is part of") for command in PARTS["commands"]),
        ("simulate examples/scenarios/burst.yaml --controller ds2", "controller 'ds2' is part of"),
        ("schedule examples/instance.json --scheduler paper-ga", "scheduler 'paper-ga' is part of"),
    ],
)
def test_without_the_laboratory_its_parts_are_one_line(
    arguments: str, said: str, without_laboratory: FreshCommands
) -> None:
    done = without_laboratory.run(*arguments.split(), folder=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    (told,) = done.stderr.strip().splitlines()
    assert said in told
    assert told.endswith("the laboratory: pip install tidegate-lab")


def test_the_help_without_the_laboratory_names_what_it_would_bring(without_laboratory: FreshCommands) -> None:
    told = without_laboratory.run("--help", folder=ROOT).stdout
    assert "With pip install tidegate-lab also: arena, chaos, demo, reproduce." in told
    assert "\n  demo " not in told


def test_the_doctor_says_what_is_missing(tmp_path: Path) -> None:
    command, variables = (
        [sys.executable, "-m", "tidegate.cli", "doctor", "--json"],
        {**os.environ, "JAVA_HOME": "/nowhere"},
    )
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert found["ready"] is False
    told = {one["actuator"]: one for one in found["capabilities"]}
    assert "Spark needs Java 17 or newer" in told["attach"]["reason"]
    assert "[console]" in told
    assert told["tidegate-lab"]["able"]
    assert "apt-get install" in done.stderr
