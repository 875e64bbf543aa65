"""A Python environment for every Spark version, made once and kept below the user's cache folder.

Each has PySpark and what `pip install tidegate` asks for, and nothing else unless it is asked for: the suite shows that
no extra is needed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
SPARKS = ("3.5", "4.0", "4.1", "4.2", "4.3")
_OLDEST_PYTHON = "python3.10"
_SIMPLE_INDEX_WAIT_S = 900


class NoEnvironment(Exception):
    """The environment cannot be made here; the message says why in a line."""


class _TooOld(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Environment:
    """One Spark version that can be run."""

    spark: str
    python: Path


def environment(spark: str, *extras: str) -> Environment:
    """The environment for a Spark version such as `3.5`, with extras of Tidegate, made where it is not there yet."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "versions.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # make test makes them in the background while other tests run
        try:
            return _made(spark, extras, _interpreter())
        except _TooOld:  # that Spark wants a newer Python
            return _made(spark, extras, sys.executable)


def _made(spark: str, extras: tuple[str, ...], interpreter: str) -> Environment:
    needs = [f"pyspark~={spark}.0", *_dependencies(extras)]
    digest = sha256("\n".join([interpreter, *needs]).encode()).hexdigest()[:8]
    folder = cache() / "versions" / f"spark-{spark}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([interpreter, "-m", "venv", str(folder)], "no environment could be made")
        # PySpark is a source package: its wheel is built here, with setuptools.
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
        _run([*pip, "setuptools", "wheel"], "PyPI cannot be reached")
        _run([*pip, *needs], f"PySpark {spark} could not be installed")
        (folder / "ready").touch()
    return Environment(spark, python)


def cache() -> Path:
    """`$XDG_CACHE_HOME/tidegate`, or `~/.cache/tidegate`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"


def _interpreter() -> str:
    """The oldest Python that Tidegate supports where there is one, else this one."""
    installed = sorted(Path.home().glob(f".pyenv/versions/*/bin/{_OLDEST_PYTHON}"))
    for python in filter(None, (shutil.which(_OLDEST_PYTHON), *map(str, installed))):
        if subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0:
            return python
    return sys.executable


def _dependencies(extras: tuple[str, ...]) -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    needs = [*project["dependencies"], *(need for extra in extras for need in project["optional-dependencies"][extra])]
    return [str(need) for need in needs if not str(need).startswith("pyspark")]


def _run(command: list[str], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SIMPLE_INDEX_WAIT_S, check=False)
    if done.returncode != 0:
        if "Requires-Python" in done.stderr or "requires a different Python" in done.stderr:
            raise _TooOld
        said = done.stderr.strip().splitlines() or ["no message"]
        raise NoEnvironment(f"{problem}: {said[-1]}")
