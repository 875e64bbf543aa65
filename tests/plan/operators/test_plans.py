"""Parameter plans, migration tables and instance scheduling."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.operators.worlds import batch, operator
from tidegate.domain import ExecutorPool, ExecutorSample
from tidegate.domain.codec import from_json, to_json
from tidegate.plan.operators.instances import (
    IndexedAssignment,
    Wanted,
    deal_in_turn,
    live_assignment,
    places_of,
    schedule_instances,
)
from tidegate.plan.operators.migration import Instance, MigrationTable, Move, Place, agreement, migrate
from tidegate.plan.operators.parameterplan import Demand, choose_rule, plan_parameters

TABLE_1 = (("T1", 8, 16, 4), ("T2", 10, 10, 2), ("T3", 5, 10, 1), ("T4", 10, 20, 3))
"""Me-Stream, Table 1: topology, executors, tasks, bottleneck level."""


def test_the_papers_worked_table() -> None:
    demands = [Demand(*row) for row in TABLE_1]
    grants = plan_parameters(demands, free_slots=10, rule="parameter")
    assert [(grant.executors, grant.tasks) for grant in grants] == [(12, 24), (12, 12), (6, 12), (13, 26)]


def test_phi_weighs_the_level() -> None:
    grants = plan_parameters([Demand(*row) for row in TABLE_1], free_slots=100, rule="parameter", phi=2.0)
    assert [grant.executors for grant in grants] == [16, 14, 7, 16]


def test_too_few_slots_serve_the_highest_level_first() -> None:
    demands = [Demand(*row) for row in TABLE_1]
    by_parameter = plan_parameters(demands, free_slots=5, rule="parameter")
    assert [grant.executors for grant in by_parameter] == [12, 10, 5, 11]
    by_level = plan_parameters(demands, free_slots=5, rule="level")
    assert [grant.executors for grant in by_level] == [13, 10, 5, 10]
    capped = plan_parameters([Demand("a", 1, 1, 2, useful=3), Demand("b", 1, 1, 1)], free_slots=5, rule="level")
    assert [grant.executors for grant in capped] == [3, 4], "what the first cannot use goes on"


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=6),
    st.integers(-5, 60),
    st.sampled_from(["level", "parameter"]),
    st.floats(0.1, 5),
)
def test_a_plan_never_exceeds_the_free_slots(sizes: list[tuple[int, int]], free: int, rule: str, phi: float) -> None:
    demands = [Demand(str(place), *size, level=place + 1) for place, size in enumerate(sizes)]
    grants = plan_parameters(demands, free, rule, phi)  # type: ignore[arg-type]
    grown = [grant.executors - demand.executors for grant, demand in zip(grants, demands, strict=True)]
    assert min(grown) >= 0
    assert sum(grown) <= max(0, free)
    assert all(grant.tasks >= demand.tasks for grant, demand in zip(grants, demands, strict=True))


def test_the_rule_is_chosen_by_the_spread() -> None:
    assert choose_rule([Demand("a", 1, 1, 2, 1.0), Demand("b", 1, 1, 1, 0.8)]) == "parameter"
    assert choose_rule([Demand("a", 1, 1, 2, 10.0), Demand("b", 1, 1, 1, 0.8)]) == "level"


def test_the_papers_migration_paths() -> None:
    """Me-Stream, Table 2: T1 goes from host and port 1 to 3, T2 stays on its host, T3 goes to host 1 and port 2."""
    ports = {1: "6700", 2: "6701", 3: "6702"}
    rows = [
        ("T1", 1, (1, 3), (1, 3)),
        ("T1", 2, (1, 3), (1, 3)),
        ("T2", 3, (2, 2), (2, 1)),
        ("T3", 9, (3, 1), (3, 2)),
        ("T3", 10, (3, 1), (3, 2)),
    ]
    before = {Instance(name, "op", task): Place(f"S{n[0]}", ports[p[0]]) for name, task, n, p in rows}
    after = {Instance(name, "op", task): Place(f"S{n[1]}", ports[p[1]]) for name, task, n, p in rows}
    table = migrate(before, after)
    assert table.hosts == [(f"S{n[0]}", f"S{n[1]}") for _, _, n, _ in rows]
    assert table.ports == [(ports[p[0]], ports[p[1]]) for _, _, _, p in rows]
    assert table.planned() == after
    assert from_json(MigrationTable, to_json(table)) == table, "it can be written down"


def test_instances_start_and_end() -> None:
    one, two = Instance("a", "x", 0), Instance("a", "x", 1)
    here = Place("h", "0")
    table = migrate({one: here}, {two: here})
    assert table.moves == [Move(one, here, None), Move(two, None, here)]
    assert str(table) == "1 start, 1 end"
    assert agreement(table, {one: here}) is None


def pool_of(*hosts: str, slots: int = 2) -> ExecutorPool:
    members = tuple(ExecutorSample(f"e{place}", host, slots, 0, 0.0) for place, host in enumerate(hosts))
    return ExecutorPool(members, len(hosts), slots)


def test_the_live_assignment_comes_from_task_lists() -> None:
    pool = pool_of("h1", "h2")
    made = batch(0, operator("split", parallelism=4, executors=("e0", "e1", "e0", "gone")))
    assert live_assignment("app", made, pool) == {
        Instance("app", "split", 0): Place("h1", "e0/0"),
        Instance("app", "split", 1): Place("h2", "e1/0"),
        Instance("app", "split", 2): Place("h1", "e0/1"),
    }
    assert Place("h1", "e0/1").executor == "e0"


PLACES = places_of(pool_of("a", "a", "b", "c"))
PARALLELISM = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(1, 20), min_size=1)
SOME_PLACES = st.sets(st.sampled_from(PLACES), min_size=1)
APPLICATIONS = st.dictionaries(st.sampled_from(["s", "t", "u"]), PARALLELISM, min_size=1)


@settings(max_examples=40)
@given(APPLICATIONS, APPLICATIONS, SOME_PLACES, SOME_PLACES)
def test_every_instance_gets_a_living_slot_and_none_is_crowded(
    before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], slots: set[Place], left: set[Place]
) -> None:
    first = schedule_instances([Wanted(name, tasks) for name, tasks in before.items()], sorted(slots), {})
    wanted = [Wanted(name, tasks, level) for level, (name, tasks) in enumerate(after.items())]
    assigned = schedule_instances(wanted, sorted(left), first)
    assert set(assigned) == {instance for known in wanted for instance in known.instances()}
    assert set(assigned.values()) <= left
    for known in wanted:
        for name, tasks in known.parallelism.items():
            crowd = Counter(place for one, place in assigned.items() if one[:2] == (known.application, name))
            if len(set(first.values()) & left) < len(left) or not first:
                assert max(crowd.values()) <= ceil(tasks / len(left))


@settings(max_examples=60)
@given(st.lists(APPLICATIONS, min_size=2, max_size=4), st.lists(SOME_PLACES, min_size=4, max_size=4))
def test_a_schedule_that_hands_its_rows_on_is_that_of_the_assignment_alone(
    plans: list[dict[str, dict[str, int]]], pools: list[set[Place]]
) -> None:
    before = IndexedAssignment.of({})
    for plan, slots in zip(plans, pools, strict=False):
        wanted = [Wanted(name, tasks, level) for level, (name, tasks) in enumerate(plan.items())]
        seats = dict(before)
        after = schedule_instances(wanted, sorted(slots), before)
        assert dict(before) == seats, "the schedule before is left as it was"
        assert IndexedAssignment.of(before).rows == before.rows
        read = IndexedAssignment.of(after)
        assert (read.rows, read.held) == (after.rows, {place: held for place, held in after.held.items() if held})
        assert read.crowded <= after.crowded
        assert after == schedule_instances(wanted, sorted(slots), seats)
        before = after


@settings(max_examples=30)
@given(APPLICATIONS)
def test_nothing_moves_where_nothing_changes(wanted: dict[str, dict[str, int]]) -> None:
    known = [Wanted(name, tasks) for name, tasks in wanted.items()]
    first = schedule_instances(known, PLACES, {})
    assert schedule_instances(known, PLACES, first) == first
    assert migrate(first, first).counts["move"] == 0


def test_it_moves_less_than_dealing_anew() -> None:
    before = [Wanted("t", {"source": 3, "split": 5, "count": 4}), Wanted("u", {"source": 2, "split": 3})]
    after = [Wanted("t", {"source": 3, "split": 8, "count": 4}, level=1), before[1]]
    dealt = migrate(deal_in_turn(before, PLACES), deal_in_turn(after, PLACES)).counts["move"]
    first = schedule_instances(before, PLACES, {})
    ours = migrate(first, schedule_instances(after, PLACES, first)).counts["move"]
    assert ours == 0 < dealt


def test_no_slots_no_assignment() -> None:
    assert schedule_instances([Wanted("t", {"x": 1})], [], {}) == {}
    assert deal_in_turn([Wanted("t", {"x": 1})], []) == {}


def test_demands_are_checked() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Demand("a", 0, 1, 1)
