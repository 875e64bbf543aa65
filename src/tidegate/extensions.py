"""Extension points: parts that other packages provide through entry points, or that a script registers by name.

| kind | what an entry point refers to |
|---|---|
| `proposers` | a `Proposer` class, or a function that makes one: `Evaluation` → proposals for the arbiter |
| `controllers` | a class with `plan(evaluation)`, created without arguments; it replaces the arbiter and the guards |
| `guards` | a function: an action and its context → the action that is allowed (or none), and why |
| `forecasters` | a function of streams and horizon that returns a forecaster |
| `schedulers` | a class with `schedule(problem, rng)`, created without arguments |
| `providers` | a function of the fleet's file and folder that returns a `Provider`, which starts and stops hosts |
| `commands` | a function with Typer parameters; it becomes `tidegate NAME` |

The groups are `tidegate.proposers` and so on. `tidegate.testing` has a conformance check for each kind.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tidegate.domain import InvalidInput
from tidegate.laboratory import how_to_install

KINDS = ("proposers", "controllers", "guards", "forecasters", "schedulers", "providers", "commands")

_registered: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}


def register(kind: str, name: str, part: Any) -> None:
    """Register a part in this process, without packaging it.

    >>> register("proposers", "doctest-proposer", object)
    >>> "doctest-proposer" in names("proposers")
    True
    >>> forget("proposers", "doctest-proposer")
    """
    _registered[_checked(kind)][name] = part


def forget(kind: str, name: str) -> None:
    """Undo `register`."""
    _registered[_checked(kind)].pop(name, None)


@cache
def installed(kind: str) -> tuple[EntryPoint, ...]:
    """Entry points of installed packages. They are searched once per process, because that reads every package."""
    return tuple(entry_points(group=f"tidegate.{_checked(kind)}"))


def names(kind: str) -> tuple[str, ...]:
    """The names of all parts of a kind, registered or installed, sorted."""
    found = {point.name for point in installed(kind)}
    return tuple(sorted(found | _registered[kind].keys()))


def part(kind: str, name: str) -> Any:
    """The part of this name. One that was registered in this process takes precedence over an installed one."""
    if name in _registered[_checked(kind)]:
        return _registered[kind][name]
    for point in installed(kind):
        if point.name != name:
            continue
        try:
            return point.load()
        except Exception as error:
            raise InvalidInput(f"{kind[:-1]} {name!r} ({point.value}) cannot be loaded: {error}") from error
    if hint := how_to_install(kind, name):
        raise InvalidInput(hint)
    raise InvalidInput(f"there is no {kind[:-1]} named {name!r}; available: {', '.join(names(kind)) or 'none'}")


def make(kind: str, name: str) -> Any:
    """Create a new instance of the part of this name."""
    return part(kind, name)()


def _checked(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"the kind must be one of {', '.join(KINDS)}, not {kind!r}")
    return kind
