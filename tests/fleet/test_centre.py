"""The centre as a runner: modes, short messages, a lost region, a lost centre. Agents as in `benchmarks/centre.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate.control.journal import SqliteJournal
from tidegate.domain import AddHost, Decision, HostState, Mode, MoveApplication
from tidegate.fleet.centre import Centre
from tidegate.fleet.config import FleetConfig
from tidegate.fleet.registry import Registry

_spec = importlib.util.spec_from_file_location("bench_centre", Path(__file__).parents[2] / "benchmarks" / "centre.py")
assert _spec is not None
assert _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)


def fleet(root: Path, hosts: int = 4, applications: int = 8, asking: float = 0.0) -> Any:
    return bench.Fleet(root, hosts, 2, applications, asking)


def last(made: Any) -> Decision:
    decision = made.centre.runner.last.decision
    assert isinstance(decision, Decision)
    return decision


def test_what_is_told_again_is_short(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    made.step()
    made.step()
    assert made.placed() == 8
    before = made.agents.bytes
    made.step()
    status = sum(len(bench.to_json(made.agents._status(card))) for card in made.agents.cards.values())
    told = made.agents.bytes - before - status
    assert told < 4 * 400, f"{told} bytes for four hosts that run what they ran"


@pytest.mark.slow
def test_a_lost_region_is_placed_elsewhere_and_the_journal_says_why(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    made.step()
    made.step()
    made.agents.dead = {card.spec.name for card in made.agents.cards.values() if card.spec.region == "r00"}
    steps = 0
    while made.placed() < 8:
        made.step()
        steps += 1
        assert steps < 40
    assert steps > 5, "a host that does not answer may well run what it ran"
    placed = [one for one in last(made).actions if isinstance(one, MoveApplication)]
    assert {one.host.partition("-")[0] for one in placed if one.host} == {"r01"}
    made.centre.close()
    told = CliRunner().invoke(app, ["explain", str(tmp_path / "journal.db")]).output
    assert "r00 has no room, placed on r01-" in told


def test_a_centre_that_recommends_places_nothing_but_by_hand(tmp_path: Path) -> None:
    made = fleet(tmp_path, applications=2)
    made.config = FleetConfig.model_validate({**made.config.model_dump(), "policy": {"mode": Mode.RECOMMEND}})
    wire = bench.Wire(made.agents)
    made.centre = Centre(made.folder, made.config, bench.NoProvider(), made.registry, wire)
    made.step()
    made.step()
    assert len([one for one in last(made).actions if isinstance(one, MoveApplication)]) == 2
    assert made.placed() == 0
    made.registry.assign("a0", "r00-0")
    made.step()
    made.step()
    assert made.placed() == 1, "what the book says is told all the same"
    made.registry.ask_host("a0", "r01-1")
    made.step()
    made.step()
    assert [name for name, (_, specs) in made.agents.running.items() if specs] == ["r01-1"]


@pytest.mark.slow
def test_a_grant_takes_one_token_however_long_the_host_needs_and_tokens_survive_the_centre(tmp_path: Path) -> None:
    made = fleet(tmp_path, asking=1.0)
    for _ in range(8):
        made.step()
    left = made.centre._tokens.left()
    assert set(left) == {"a0", "a1"}, "two hosts run something and ask"
    assert min(left.values()) >= 2, "one of three was taken, and it fills again"
    assert last(made).actions == ()
    assert last(made).reasons[0].code == "hold-granted"
    made.centre.close()
    again = Centre(
        made.folder,
        made.config,
        bench.NoProvider(),
        Registry(made.folder.registry, made.clock),
        bench.Wire(made.agents),
        SqliteJournal(tmp_path / "journal.db"),
    )
    assert again._tokens.left() == left


def test_the_book_is_read_again_when_another_process_writes(tmp_path: Path) -> None:
    mine, other = Registry(tmp_path / "registry.db"), Registry(tmp_path / "registry.db")
    spec = bench.ApplicationSpec("a", "m:f")
    mine.put_application(spec)
    assert mine.applications()["a"].host is None
    assert mine.applications() is mine.applications(), "nobody has written"
    other.assign("a", "east-1")
    assert mine.applications()["a"].host == "east-1"

    def cut_short() -> None:
        with mine.together():
            mine.assign("a", "east-2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cut_short()
    assert mine.applications()["a"].host == "east-1"


def test_hosts_below_the_least_are_started_first(tmp_path: Path) -> None:
    made = fleet(tmp_path, hosts=1, applications=1)
    made.config = FleetConfig.model_validate({"regions": {"r00": {"min_hosts": 2, "max_hosts": 2}}, "most_hosts": 2})
    wire = bench.Wire(made.agents)
    made.centre = Centre(made.folder, made.config, bench.NoProvider(), made.registry, wire)
    made.step()
    made.step()
    assert [one for one in last(made).actions if isinstance(one, AddHost)] == []
    assert made.registry.hosts()["r00-1"].handle == "r00-1"
    states = {host.name: host.state for host in made.centre.runner.last.observation.fleet.hosts}
    assert states["r00-1"] is HostState.STARTING
