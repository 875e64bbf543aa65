"""Placement of applications on hosts: at home, without overload, with few moves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.fleet.placing import Demand, place
from tidegate.fleet.state import HostSpec

HOSTS = [HostSpec("e1", "east", 2), HostSpec("e2", "east", 2), HostSpec("w1", "west", 2)]
REGION = {host.name: host.region for host in HOSTS}


def test_a_full_region_overflows_to_the_other_and_says_so() -> None:
    demands = [Demand(f"a{number}", 1.5, "east") for number in range(3)]
    found = place(HOSTS, demands, {}, moves=0, rule="best-fit")
    assert sorted(found.hosts.values()) == ["e1", "e2", "w1"]
    assert found.unmet_slots == {"east": 1.5}


def test_what_runs_stays_where_it_is_without_moves() -> None:
    demands = [Demand("a", 0.5, "east"), Demand("b", 0.5, "east")]
    assert place(HOSTS, demands, {"a": "w1", "b": "e2"}, moves=0, rule="best-fit").hosts == {"a": "w1", "b": "e2"}


def test_an_application_goes_home_when_it_may_move() -> None:
    found = place(HOSTS, [Demand("a", 0.5, "east")], {"a": "w1"}, moves=1, rule="best-fit")
    assert REGION[found.hosts["a"]] == "east"


def test_without_hosts_all_demand_is_unmet() -> None:
    assert place([], [Demand("a", 0.5, "east")], {}, moves=0).unmet_slots == {"east": 0.5}


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0.05, 2.5), st.sampled_from(["east", "west", "north", None])), max_size=7),
    st.integers(0, 2),
)
def test_everybody_gets_a_host_and_moves_are_bounded(wanted: list[tuple[float, str | None]], moves: int) -> None:
    demands = [Demand(f"a{number}", slots, region) for number, (slots, region) in enumerate(wanted)]
    current = {each.application: HOSTS[number % 3].name for number, each in enumerate(demands) if number % 2}
    found = place(HOSTS, demands, current, moves=moves, rule="best-fit")
    assert set(found.hosts) == {each.application for each in demands}
    assert sum(found.hosts[name] != host for name, host in current.items()) <= moves
