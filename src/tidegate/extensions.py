"""What can be plugged in, found by entry points and registered by name.

| kind | what the entry point names |
|---|---|
| `proposers` | a `Proposer` class, or a function that makes one: `Evaluation` → proposals for the arbiter |
| `controllers` | a class with `plan(evaluation)`, made without arguments; it decides past the arbiter and the guards |
| `guards` | a function: an action and its context → the action that may go on, and why |
| `forecasters` | a function of streams and horizon that makes a bank of forecasts |
| `schedulers` | a class with `schedule(problem, rng)`, made without arguments |
| `providers` | a function of the fleet's file and folder that makes what starts and stops hosts |
| `commands` | a function whose parameters Typer understands; it becomes `tidegate NAME` |

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
    """Make a part known in this process, without packaging it.

    >>> register("proposers", "doctest-proposer", object)
    >>> "doctest-proposer" in names("proposers")
    True
    >>> forget("proposers", "doctest-proposer")
    """
    _registered[_checked(kind)][name] = part


def forget(kind: str, name: str) -> None:
    """Take back what `register` made known."""
    _registered[_checked(kind)].pop(name, None)


@cache
def installed(kind: str) -> tuple[EntryPoint, ...]:
    """Entry points of installed packages. They are searched once per process, because that reads every package."""
    return tuple(entry_points(group=f"tidegate.{_checked(kind)}"))


def names(kind: str) -> tuple[str, ...]:
    """All that are there, those of other packages included, in a fixed order."""
    found = {point.name for point in installed(kind)}
    return tuple(sorted(found | _registered[kind].keys()))


def part(kind: str, name: str) -> Any:
    """What is registered under this name; what was registered in this process goes before what is installed."""
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
    raise InvalidInput(f"there is no {kind[:-1]} named {name!r}; there are: {', '.join(names(kind)) or 'none'}")


def make(kind: str, name: str) -> Any:
    """A new one of this name."""
    return part(kind, name)()


def _checked(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"there are {', '.join(KINDS)}, not {kind!r}")
    return kind
