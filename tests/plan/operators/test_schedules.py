"""Instance schedules are those of a plain rendering of the rules, which keeps no index and looks at every slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.plan.operators.instances import Wanted, schedule_instances
from tidegate.plan.operators.migration import Assignment, Instance, Place

PLACES = [Place(host, port) for host in "abc" for port in ("0", "1", "2")]
PARALLELISM = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(1, 20), min_size=1)
PLANS = st.dictionaries(st.sampled_from(["s", "t", "u"]), st.tuples(PARALLELISM, st.integers(0, 2)), min_size=1).map(
    lambda found: [Wanted(name, tasks, level) for name, (tasks, level) in found.items()]
)
POOLS = st.sets(st.sampled_from(PLACES), min_size=1).map(sorted)


def by_the_rules(wanted: Sequence[Wanted], places: Sequence[Place], now: Assignment) -> dict[Instance, Place]:
    in_turn = sorted(wanted, key=lambda known: -known.level)
    instances = [instance for known in in_turn for instance in known.instances()]
    seats = {one: now[one] for one in instances if now.get(one) in places}
    sizes = Counter(one[:2] for one in instances)
    room = {operator: ceil(tasks / len(places)) for operator, tasks in sizes.items()}

    def share(one: Instance, place: Place) -> int:
        """Tasks of the same operator on this slot."""
        return sum(where == place and other[:2] == one[:2] for other, where in seats.items())

    if len(set(seats.values())) < len(places):
        for one in reversed(instances):
            if one in seats and share(one, seats[one]) > room[one[:2]]:
                del seats[one]
    feeders = {
        (known.application, after): before
        for known in wanted
        for before, after in zip(known.parallelism, [*known.parallelism][1:], strict=False)
    }
    for one in instances:
        if one in seats:
            continue
        held = Counter(seats.values())
        free = [place for place in sorted(places) if share(one, place) < room[one[:2]]]
        emptiest = min(free, key=lambda place: held[place])
        near = seats.get(Instance(one.application, feeders.get(one[:2], ""), one.task))
        seats[one] = near if near in free and held[near] <= held[emptiest] + 1 else emptiest
    return seats


@settings(max_examples=150)
@given(st.lists(st.tuples(PLANS, POOLS), min_size=1, max_size=4), st.sets(st.integers(0, 200)))
def test_schedules_follow_the_rules(steps: list[tuple[list[Wanted], list[Place]]], unseen: set[int]) -> None:
    """Also one after another, and where some tasks have not been seen."""
    (wanted, places), *others = steps
    first = by_the_rules(wanted, places, {})
    assert schedule_instances(wanted, places, {}) == first
    now: Assignment = {one: place for turn, (one, place) in enumerate(first.items()) if turn not in unseen}
    for wanted, places in [steps[0], *others]:
        expected = by_the_rules(wanted, places, dict(now))
        now = schedule_instances(wanted, places, now)
        assert now == expected
