"""`pip install tidegate` is small, and a command that needs more says in a line what to install."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from tidegate.extras import _BROUGHT_BY

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = {"sklearn": "scikit-learn", "py4j": "pyspark", "opentelemetry": "opentelemetry-sdk"}


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]


def names(needs: object) -> set[str]:
    assert isinstance(needs, list)
    return {re.split(r"[<>=\[; ]", need)[0] for need in needs}


def test_attaching_needs_five_small_libraries() -> None:
    assert names(project()["dependencies"]) == {"numpy", "pydantic", "pyyaml", "rich", "typer"}


@pytest.mark.parametrize("extra", list(_BROUGHT_BY))
def test_an_extra_brings_what_its_hint_promises(extra: str) -> None:
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
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
def test_a_command_without_its_extra_is_one_line(missing: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    line = f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['tidegate', *{arguments!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", line + "from tidegate.cli import main; main()"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (told,) = done.stderr.strip().splitlines()
    assert told.startswith("tidegate: ")
    assert said in told


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
    assert "apt-get install" in done.stderr
