"""Rules of the house that no other tool checks: short files, few parameters, one name for one thing."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "lab" / "src").rglob("*.py")])
MOST_LINES = 400
MOST_PARAMETERS = 6
COMPILED = {"kernel", "inlined"}
"""Decorators of functions that numba compiles. They take their arrays one by one."""
COMMANDS = ("src/tidegate/cli/", "lab/src/tidegate_lab/commands/")
"""Here a parameter is an option of the command line."""

LONG_FILES: set[str] = set()
MANY_PARAMETERS = {
    "src/tidegate/adapters/sim/cluster.py": {"__init__"},  # a public constructor: every call names the few it changes
}
"""What does not keep the rules yet. The lists may only become shorter."""


SAME_NAMES: set[str] = set()
"""Public classes of the product that share their name with another one. This list, too, may only become shorter."""

SAME_ROLE = {
    "clock": "the `Clock` port, real and simulated",
    "cluster": "the `Cluster` port: Spark, the simulator, the fleet",
    "correlations": "the same numbers, here and on Spark",
    "executors": "the pool, live and simulated",
    "figure": "the plot of its package",
    "figures": "the plots of its package",
    "fleet": "a fleet, observed and simulated",
    "hindsight": "the model, and the rule that asks it",
    "islands": "the same search, here and on Spark",
    "limits": "admission limits, planned and live",
    "nexmark": "the benchmark's events and its queries",
    "page": "the HTML page of its package",
    "ports": "the interfaces of its package to the outside",
    "proposer": "the proposer of its package",
    "replay": "a recorded run, played again",
    "rstorm": "the rule, and the baseline that uses it",
    "shares": "shares of classes, planned and carried out",
}
"""Modules that share a name because they play the same part in different packages."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True)
class Outline:
    """What the rules ask of a file. Its tree is dropped, because hundreds of them slow down every test that follows."""

    classes: tuple[str, ...]
    wide_functions: frozenset[str]


@cache
def outline(path: Path) -> Outline:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Outline(
        tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        frozenset(one.name for one in functions if parameters(one) > MOST_PARAMETERS and not compiled(one)),
    )


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    everything = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len([one for one in everything if one.arg not in {"self", "cls"}])


def compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id in COMPILED for one in function.decorator_list)


def test_files_are_short() -> None:
    long = {name(path) for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES}
    assert long == LONG_FILES, f"split by idea what is longer than {MOST_LINES} lines; take off the list what is not"


def test_a_name_of_the_product_means_one_thing() -> None:
    found = Counter(
        word
        for path in SOURCES
        if name(path).startswith("src/")
        for word in outline(path).classes
        if not word.startswith("_")
    )
    twice = {word for word, times in found.items() if times > 1}
    assert twice == SAME_NAMES, "find another name for the new class; take off the list what is unique by now"


def test_a_module_name_means_one_thing() -> None:
    found = Counter(path.stem for path in SOURCES if not name(path).startswith(COMMANDS) and path.stem[0] != "_")
    twice = {word for word, times in found.items() if times > 1}
    assert twice == set(SAME_ROLE), "name the new module after what it holds; take off the list what is unique"


def test_functions_take_few_parameters() -> None:
    paths = [path for path in SOURCES if not name(path).startswith(COMMANDS)]
    found = {name(path): outline(path).wide_functions for path in paths if outline(path).wide_functions}
    assert found == MANY_PARAMETERS, f"parameters that belong together want a type (at most {MOST_PARAMETERS})"


PACKAGES = [*(ROOT / "src/tidegate").glob("*/__init__.py"), *(ROOT / "src/tidegate/adapters").glob("*/__init__.py")]


@pytest.mark.parametrize("path", [one for one in PACKAGES if one.parent.name != "adapters"], ids=name)
def test_a_package_says_what_comes_in_what_goes_out_and_what_it_leaves_alone(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    said = [line.split(":")[0] for line in text.splitlines()]
    assert [word for word in said if word in {"In", "Out", "Never touches"}] == ["In", "Out", "Never touches"]
