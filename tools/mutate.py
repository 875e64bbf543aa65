"""Changes one operator or constant of a file at a time and runs its tests: which changes does no test notice?

    python tools/mutate.py src/tidegate/plan/guards.py tests/plan/test_guards.py

Prints the survivors, each with its line and the change. Texts and annotations are left alone. Every mutant runs in a
fork of a process that has run the tests already, so it takes about a second. The tests must import the file directly.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
LONGEST_S = 120


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """The node, changed in one way each."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[one]) if type(one) in COMPARE:
            changed.ops = [COMPARE[type(one)]()]
            yield changed
        case ast.BinOp(op=one) if type(one) in ARITHMETIC:
            changed.op = ARITHMETIC[type(one)]()
            yield changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not()):
            yield changed.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not changed.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(changed.value + 1)
        case ast.Name(id=name) if name in SWAPPED:
            yield ast.Name(SWAPPED[name], ast.Load())
        case ast.IfExp():
            yield changed.body
            yield changed.orelse
        case ast.If():
            changed.test = ast.Constant(False)
            yield changed
        case ast.Break():
            yield ast.Pass()


def mutants(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Line, change and module of every mutant."""
    skipped = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list"}:
                continue
            for place, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or id(child) in skipped:
                    continue
                for other in changes(child):
                    before = ast.unparse(child).splitlines()[0]
                    _put(node, name, place, ast.copy_location(other, child))
                    yield getattr(child, "lineno", 0), f"{before}  →  {ast.unparse(other).splitlines()[0]}", tree
                    _put(node, name, place, child)


def _put(node: ast.AST, name: str, place: int, child: ast.AST) -> None:
    value = getattr(node, name)
    if isinstance(value, list):
        value[place] = child
    else:
        setattr(node, name, child)


def survives(file: Path, module: str, tree: ast.Module, tests: list[str]) -> bool:
    """Run the tests on a mutant in a process of its own. A mutant that hangs counts as noticed."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    signal.alarm(LONGEST_S)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    code = compile(ast.fix_missing_locations(tree), str(file), "exec")
    for name in [name for name, loaded in sys.modules.items() if _uses(loaded, module)]:
        del sys.modules[name]
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.get_code = lambda name: code  # type: ignore[attr-defined]
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    try:
        spec.loader.exec_module(made)
    except Exception:
        os._exit(1)
    parent, _, name = module.rpartition(".")
    setattr(sys.modules[parent], name, made)
    os._exit(run(tests))


def run(tests: list[str]) -> int:
    return int(pytest.main([*tests, "-x", "-q", "-p", "no:cacheprovider", "-m", "not spark and not slow"]))


def _uses(loaded: object, module: str) -> bool:
    """Is this the module itself, or does it hold something of it?"""
    return getattr(loaded, "__name__", "") == module or any(
        getattr(one, "__module__", None) == module or one is sys.modules.get(module)
        for one in list(getattr(loaded, "__dict__", {}).values())
    )


def main() -> None:
    """Run every mutant."""
    file, tests = Path(sys.argv[1]).resolve(), sys.argv[2:]
    module = ".".join(file.with_suffix("").parts[file.parts.index("tidegate") :])
    sys.path.insert(0, str(Path.cwd()))
    tree = ast.parse(file.read_text())
    if run(tests) or not survives(file, module, tree, tests):  # loads everything once, for all forks
        raise SystemExit("the tests fail on the file as it is")
    count = left = 0
    for line, change, mutant in mutants(tree):
        count += 1
        if survives(file, module, mutant, tests):
            left += 1
            print(f"{file.name}:{line}: {change}", flush=True)
    print(f"{left} of {count} survive")


if __name__ == "__main__":
    main()
