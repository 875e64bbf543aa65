"""Providers: hosts by commands of the user's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.config import ProviderRule
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.provider import CommandHook
from tidegate.fleet.vocabulary import HostSpec

HOST = HostSpec("east-1", "east", 2)


def hook(tmp_path: Path, start: str = "echo", stop: str = "true", alive: str = "") -> CommandHook:
    return CommandHook(ProviderRule(kind="commands", start=start, stop=stop, alive=alive), FleetFolder(tmp_path / "f"))


def test_commands_are_filled_in_word_by_word(tmp_path: Path) -> None:
    spaced = FleetFolder(tmp_path / "a folder; with $(spaces)")
    rule = ProviderRule(kind="commands", start="echo started {name} {region} {slots} {fleet}", stop="true")
    handle = CommandHook(rule, spaced).start(HOST)
    assert handle == f"started east-1 east 2 {spaced.root}", "one word, and no shell that could read more into it"


def test_the_last_line_is_the_handle(tmp_path: Path) -> None:
    made = hook(tmp_path, f"{sys.executable} -c 'print(1); print(42)'", alive="test {handle} = 42")
    assert made.start(HOST) == "42"
    assert made.alive("42") is True
    assert made.alive("43") is False
    assert hook(tmp_path).alive("42") is None, "without a command nobody can tell"


def test_what_fails_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnfit, match="start command failed"):
        hook(tmp_path, "false").start(HOST)
    with pytest.raises(EnvironmentUnfit, match="stop command failed"):
        hook(tmp_path, stop="false").stop("h")
    with pytest.raises(EnvironmentUnfit, match="could not be run"):
        hook(tmp_path, "no-such-command-anywhere").start(HOST)
    with pytest.raises(InvalidInput, match="unknown placeholder"):
        hook(tmp_path, "echo {planet}").start(HOST)
