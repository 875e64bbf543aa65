"""Parts are found by name, the built-in ones pass their own conformance checks, and the page's example works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.core.worlds import steady
from tidegate import extensions
from tidegate.cli.plugged import add_plugged_in
from tidegate.control.controller import Controller
from tidegate.domain import Action, InvalidInput, Proposal, Reason, ScaleExecutors
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluation import Evaluation
from tidegate.evaluate.forecast import ArimaBank, SelectingBank
from tidegate.placement import SCHEDULERS, scheduler
from tidegate.plan.arbiter import BUILT_IN
from tidegate.plan.guards import GUARDS, GuardContext
from tidegate.plan.planner import Plan, Proposer
from tidegate.testing import (
    check_command,
    check_controller,
    check_forecaster,
    check_guard,
    check_proposer,
    check_scheduler,
)

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    for kind in extensions.KINDS:
        for name in tuple(extensions._registered[kind]):
            extensions.forget(kind, name)


class AlwaysFour:
    """A rival that knows no load."""

    def plan(self, evaluation: Evaluation) -> Plan:
        return Plan((Proposal(ScaleExecutors(4), Reason("four", "always four")),))


def never_on_sundays(action: Action, context: GuardContext) -> tuple[Action | None, Reason | None]:
    return None, Reason("never-on-sundays", "it is always Sunday here")


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.name)
def test_every_proposer_conforms(kind: type[Proposer]) -> None:
    check_proposer(kind)


@pytest.mark.parametrize("name", GUARDS)
def test_every_guard_conforms(name: str) -> None:
    check_guard(GUARDS[name])


@pytest.mark.parametrize("bank", [ArimaBank, SelectingBank])
def test_every_forecaster_conforms(bank: Any) -> None:
    check_forecaster(bank)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_conforms(name: str) -> None:
    check_scheduler(lambda: scheduler(name))


@pytest.mark.parametrize("name", extensions.names("commands"))
def test_every_command_that_is_plugged_in_conforms(name: str) -> None:
    check_command(extensions.part("commands", name))


def test_a_command_without_an_example_is_found_out() -> None:
    def silent() -> None:
        """Do something."""

    with pytest.raises(AssertionError, match="ends with an example"):
        check_command(silent)


@pytest.mark.usefixtures("registered")
def test_commands_are_plugged_in_and_replace_none_of_ours() -> None:
    def other(json: bool = False) -> None:
        """Another one. Example: tidegate other"""
        typer.echo(f"other, json {json}")

    def run() -> None:
        typer.echo("not this one")

    for command in (other, run):
        extensions.register("commands", command.__name__, command)
    app = typer.Typer()
    app.command("run")(lambda: typer.echo("ours"))
    add_plugged_in(app, taken={"run"})
    assert CliRunner().invoke(app, ["other", "--json"]).stdout == "other, json True\n"
    assert CliRunner().invoke(app, ["run"]).stdout == "ours\n"


def test_a_broken_package_does_not_take_our_commands_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no_such_package:command", "tidegate.commands")
    monkeypatch.setattr(extensions, "installed", lambda _: (point,))
    app = typer.Typer()
    app.command("ours")(lambda: typer.echo("ours"))
    add_plugged_in(app, taken={"ours"})
    assert CliRunner().invoke(app, ["ours"]).stdout == "ours\n"
    found = CliRunner().invoke(app, ["broken", "--any", "argument"]).exception
    assert isinstance(found, InvalidInput)
    assert "command 'broken' (no_such_package:command) cannot be loaded" in str(found)


def test_installed_packages_are_searched_once() -> None:
    extensions.installed.cache_clear()
    for _ in range(3):
        extensions.names("guards")
    assert extensions.installed.cache_info().misses == 1


def test_a_proposer_that_learns_while_it_proposes_is_found_out() -> None:
    class Forgetful(Proposer):
        name = "forgetful"

        def __init__(self) -> None:
            self.memory = {"asked": 0}

        def propose(self, evaluation: Evaluation) -> Plan:
            self.memory["asked"] += 1
            return Plan()

    with pytest.raises(AssertionError, match="must not change the memory"):
        check_proposer(Forgetful)


@pytest.mark.usefixtures("registered")
def test_a_controller_decides_past_arbiter_and_guards() -> None:
    check_controller(AlwaysFour)
    extensions.register("controllers", "always-four", AlwaysFour)
    policy = Policy.model_validate({"executors": {"max": 2}})
    controller = Controller(policy, planner=extensions.make("controllers", "always-four"))
    decision = controller.step(steady(100, 1, executors=1)[0])
    assert decision.actions == (ScaleExecutors(4),)


@pytest.mark.usefixtures("registered")
def test_a_guard_that_is_plugged_in_holds_and_names_itself() -> None:
    extensions.register("guards", "never-on-sundays", never_on_sundays)
    controller = Controller(Policy.model_validate({"executors": {"min": 3, "max": 5}}))
    decision = controller.step(steady(100, 1, executors=1)[0])
    assert not decision.actions
    assert decision.held[-1].guard == "never-on-sundays"


@pytest.mark.usefixtures("registered")
def test_the_example_of_the_page_runs_as_it_is_written() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 30
    exec(compile(code, str(PAGE), "exec"), {})
    controller = Controller(Policy.model_validate({"executors": {"max": 6}}))
    decisions = [controller.step(seen) for seen in steady(100, 3, executors=1, start_s=18 * 3600.0)]
    wanted = [held.wanted for held in decisions[0].held] + list(decisions[0].actions)
    assert ScaleExecutors(4) in wanted
    assert any(reason.code == "rush-hour" for reason in decisions[0].reasons)


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(InvalidInput, match="no proposer named 'nobody'; available: none"):
        extensions.part("proposers", "nobody")
    with pytest.raises(ValueError, match="not 'toasters'"):
        extensions.names("toasters")
