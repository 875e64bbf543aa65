"""The commands: what is wrong is said in a line, and status works without a centre."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fleet.conftest import StubFleet, wait_for
from tidegate.cli.fleet import fleet as commands
from tidegate.domain import InvalidInput
from tidegate.fleet.config import FleetConfig, load_config, plain, store_config, stored_config
from tidegate.fleet.folder import FleetFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet.yaml"


def run(folder: Path, *words: str) -> Any:
    done = CliRunner().invoke(commands, [*words, "--fleet", str(folder), "--json"])
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status"], "no fleet there"),
        (["submit", "app.py"], "no fleet there"),
        (["down"], "no fleet there"),
    ],
)
def test_without_a_fleet_commands_say_how_to_make_one(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(tmp_path / "none", *words)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regions: [a]", "regions"),
        ("hosts: 3", "line 1: hosts: unknown setting; did you mean host?"),
        ("applications: {a: {}}", "line 1: applications: write it under policy"),
        ("provider: {kind: commands}", "needs both a start and a stop"),
        ("{", "not YAML"),
        ("regions: {east: {max_hosts: 0}}", r"regions\.east\.max_hosts"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_starts(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        run(tmp_path / "fleet", "up", str(file))


def test_the_example_is_a_fleet() -> None:
    assert set(load_config(EXAMPLE).regions) == {"east", "west"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["submit", "nowhere.py"], "no such file"),
        (["submit", "m:build", "--region", "north"], "the fleet has east, west"),
        (["submit", "m:build", "--arguments", "[1]"], "JSON object"),
        (["submit", "m:build", "--arguments", "{"], "not JSON"),
        (["submit", "m:build", "--elastic", "lookup"], "operator=maximum tasks"),
        (["submit", "m:build", "--name", "../x"], "letters, digits"),
        (["move", "a", "east-1"], "no application 'a'"),
        (["withdraw", "a"], "no application 'a'"),
    ],
)
def test_bad_input(fleet: StubFleet, words: list[str], message: str) -> None:
    fleet.registry.put_fact("config", fleet.config.model_dump(mode="json"))
    with pytest.raises(InvalidInput, match=message):
        run(fleet.folder.root, *words)
    assert fleet.registry.applications() == {}


@pytest.mark.slow
def test_status_and_moves_of_a_running_fleet(fleet: StubFleet) -> None:
    fleet.registry.put_fact("config", fleet.config.model_dump(mode="json"))
    fleet.begin()
    fleet.submit("a", "east")
    wait_for(lambda: fleet.runs_on("a"), "a")
    wait_for(lambda: len(fleet.folder.cards()) == 2, "both hosts")
    assert run(fleet.folder.root, "move", "a", "west-1")["host"] == "west-1"
    with pytest.raises(InvalidInput, match="no host 'north-1'"):
        run(fleet.folder.root, "move", "a", "north-1")
    fleet.kill_centre()

    def answered() -> Any:
        report = run(fleet.folder.root, "status")
        states = {host["host"]: host["state"] for host in report["hosts"]}
        return states == {"east-1": "ready", "west-1": "ready"} and report

    report = wait_for(answered, "the answers of both agents")
    assert report["centre"]["pid"] is None, "the centre is away; the agents answer all the same"
    (application,) = report["applications"]
    assert (application["host"], application["phase"], application["epoch"]) == ("west-1", "running", 2)
    assert [region["region"] for region in report["regions"]] == ["east", "west"]
    shown = CliRunner().invoke(commands, ["status", "--fleet", str(fleet.folder.root)])
    assert "centre: away" in shown.stdout
    fleet.begin()
    assert run(fleet.folder.root, "withdraw", "a") == {"application": "a", "ended": True}


def test_the_fleets_file_is_stored_as_it_was_written(tmp_path: Path) -> None:
    """Classes and freezes have names of their own in a file."""
    policy = {
        "mode": "recommend",
        "classes": {"gold": {"weight": 4}},
        "applications": {"a": {"class": "gold"}},
        "freeze": [{"cron": "0 9 * * *", "for": "2h"}],
    }
    given = FleetConfig.model_validate({"policy": policy, "managers": {"policy": "model-based"}})
    folder = FleetFolder(tmp_path)
    store_config(given, folder)
    assert stored_config(folder) == given
    assert FleetConfig.model_validate(plain(given)) == given
