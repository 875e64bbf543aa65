"""Placement of applications on hosts: at home, without overload, and home again when there is room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet.steps import evaluation
from tidegate.domain import FleetApplication, FleetHost, FleetSample, HostState, MoveApplication
from tidegate.fleet.plan.placing import Placing, PlacingSettings, place

HOSTS = (FleetHost("e1", "east", 2), FleetHost("e2", "east", 2), FleetHost("w1", "west", 2))
ROOM = {host.name: 1.6 for host in HOSTS}


def app(name: str, slots: float, home: str | None, host: str | None = None) -> FleetApplication:
    return FleetApplication(name, home, slots, host, host, ran=host is not None)


def moves(fleet: FleetSample, **settings: float) -> list[MoveApplication]:
    plan = Placing(PlacingSettings("best-fit", move_pause_s=0.0, **settings)).propose(evaluation(fleet))
    return [one.action for one in plan.proposals if isinstance(one.action, MoveApplication)]


def test_a_full_region_overflows_to_the_other() -> None:
    found = place(HOSTS, [app(f"a{number}", 1.5, "east") for number in range(3)], ROOM, "best-fit")
    assert sorted(found.values()) == ["e1", "e2", "w1"]


def test_what_runs_stays_and_what_has_no_host_gets_one() -> None:
    fleet = FleetSample(HOSTS, (app("a", 1.0, "east", "e1"), app("b", 1.0, "east")))
    assert moves(fleet) == [MoveApplication("b", "e2")]


def test_an_application_goes_home_when_there_is_room_and_stays_where_a_user_wants_it() -> None:
    away = app("a", 0.5, "east", "w1")
    assert [move.host in {"e1", "e2"} for move in moves(FleetSample(HOSTS, (away,)))] == [True]
    full = tuple(app(f"f{number}", 1.5, "east", f"e{number}") for number in (1, 2))
    assert moves(FleetSample(HOSTS, (away, *full))) == []


def test_hosts_that_are_away_keep_their_applications_and_lost_ones_do_not() -> None:
    away = FleetHost("e1", "east", 2, HostState.AWAY)
    lost = FleetHost("e2", "east", 2, HostState.LOST)
    fleet = FleetSample((away, lost, HOSTS[2]), (app("a", 0.5, "east", "e1"), app("b", 0.5, "east", "e2")))
    assert moves(fleet) == [MoveApplication("b", "w1")]


def test_one_that_never_ran_waits_for_the_first_host_of_its_region() -> None:
    starting = FleetHost("e1", "east", 2, HostState.STARTING)
    assert moves(FleetSample((starting, HOSTS[2]), (app("a", 0.5, "east"),))) == []


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0.05, 2.5), st.sampled_from(["east", "west", "north", None])), max_size=7))
def test_everybody_gets_a_host(wanted: list[tuple[float, str | None]]) -> None:
    new = [app(f"a{number}", slots, region) for number, (slots, region) in enumerate(wanted)]
    assert set(place(HOSTS, new, ROOM, "best-fit")) == {one.name for one in new}


def test_hundreds_at_once_are_spread_without_overload() -> None:
    hosts = [FleetHost(f"h{number}", "east", 10) for number in range(20)]
    new = [app(f"a{number}", 0.3, "east") for number in range(400)]
    found = place(hosts, new, {host.name: 8.0 for host in hosts}, "tidegate")
    assert max(list(found.values()).count(host.name) for host in hosts) <= 26
