"""Commands of other packages, found by their entry points; for those that are missing, what to install."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import typer

from tidegate import extensions
from tidegate.domain import InvalidInput
from tidegate.laboratory import PARTS

_ANY_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_plugged_in(app: typer.Typer, taken: Collection[str]) -> None:
    """Add the commands that other packages bring. They cannot replace one of ours."""
    found = extensions.names("commands")
    if missing := sorted(set(PARTS["commands"]) - set(found)):
        app.info.epilog = f"With pip install tidegate-lab also: {', '.join(missing)}."
    for name in sorted({*found, *PARTS["commands"]} - set(taken)):
        try:
            command: Callable[..., Any] = extensions.part("commands", name)
        except InvalidInput as problem:  # not installed, or broken, which must not take our commands with it
            app.command(name, hidden=True, context_settings=_ANY_ARGUMENTS)(_failing(str(problem)))
        else:
            app.command(name)(command)


def _failing(problem: str) -> Callable[[], None]:
    def command() -> None:
        raise InvalidInput(problem)

    return command
