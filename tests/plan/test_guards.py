"""Every guard names itself, and limits what it is there for."""

from dataclasses import replace
from typing import Any

import pytest

from tests.core.worlds import pool
from tidegate.domain import (
    Action,
    AddHost,
    FleetApplication,
    FleetSample,
    Held,
    MoveApplication,
    MoveState,
    Proposal,
    Reason,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
)
from tidegate.domain.policy import Policy
from tidegate.domain.rules import KnobRule
from tidegate.plan.guards import GuardContext, GuardMemory, guard, remember, watch

HOUR_S = 3600.0
STATED = {
    "executors": {"min": 2, "max": 6},
    "guards": {"cool_down_up_s": 10, "cool_down_down_s": 60, "disruptions_per_hour": 2},
}
POLICY = Policy.model_validate(STATED)
EVERY_KNOB = {
    "executors": ScaleExecutors(4),
    "admission": SetAdmission("a", 100),
    "parallelism": SetParallelism("a", "b", 3),
    "interval": SetBatchInterval("a", 2.0),
    "shares": SetShare("a", 0.5),
    "state": MoveState("a", 0, "1"),
    "moves": MoveApplication("a", "east-1"),
    "hosts": AddHost("east-2", "east"),
}


def guarded(action: Action, now: int = 3, time_s: float = 1000.0, **changes: Any) -> tuple[Action | None, list[Held]]:
    """What becomes of an action under a policy that is stated like this."""
    executors = STATED["executors"] | changes.pop("executors", {})
    policy = Policy.model_validate(STATED | {"executors": executors} | changes.pop("policy", {}))
    context = GuardContext(time_s, pool(now), policy, GuardMemory(), **changes)
    actions, held = guard((Proposal(action, Reason("test", "because")),), context)
    return (actions[0] if actions else None), list(held)


def passed(
    action: Action, now: int = 3, time_s: float = 1000.0, memory: GuardMemory | None = None, scalable: bool = True
) -> tuple[tuple[Action, ...], list[str]]:
    memory = memory or GuardMemory()
    context = GuardContext(time_s, replace(pool(now), scalable=scalable), POLICY, memory)
    actions, held = guard((Proposal(action, Reason("test", "because")),), context)
    return actions, [found.guard for found in held]


@pytest.mark.parametrize(
    ("wanted", "now", "done", "guards"),
    [
        (4, 3, 4, []),
        (6, 2, 6, []),
        (9, 5, 6, ["bounds"]),
        (1, 3, 2, ["bounds"]),
        (9, 6, None, ["bounds"]),
        (2, 6, 3, ["step-size"]),
        (5, 1, 4, ["step-size"]),
    ],
)
def test_bounds_and_steps(wanted: int, now: int, done: int | None, guards: list[str]) -> None:
    actions, held = passed(ScaleExecutors(wanted), now)
    assert actions == (() if done is None else (ScaleExecutors(done),))
    assert held == guards


def test_growing_waits_for_the_last_growth_only() -> None:
    memory = GuardMemory(grew_s=995.0, changed_s=995.0)
    assert passed(ScaleExecutors(4), memory=memory) == ((), ["cool-down"])
    assert passed(ScaleExecutors(4), memory=GuardMemory(changed_s=999.0))[1] == []


def test_shrinking_waits_for_any_change() -> None:
    assert passed(ScaleExecutors(2), memory=GuardMemory(changed_s=950.0)) == ((), ["cool-down"])
    assert passed(ScaleExecutors(2), memory=GuardMemory(changed_s=930.0))[1] == []


def test_the_disruption_budget_holds_shrinks_and_restarts_but_not_rescues() -> None:
    spent = GuardMemory(disruptions_s=[500.0, 600.0])
    assert passed(ScaleExecutors(2), memory=spent) == ((), ["disruption-budget"])
    assert passed(SetParallelism("a", "b", 3), memory=spent) == ((), ["disruption-budget"])
    assert passed(ScaleExecutors(4), memory=spent)[0] == (ScaleExecutors(4),)
    assert passed(SetAdmission("a", 100), memory=spent)[0] == (SetAdmission("a", 100),)
    assert passed(ScaleExecutors(2), time_s=4200.0, memory=spent)[0] == (ScaleExecutors(2),)


def test_a_pool_that_is_not_ours_is_left_alone() -> None:
    assert passed(ScaleExecutors(4), scalable=False) == ((), ["scalable"])


def test_admission_disturbs_nobody() -> None:
    assert passed(SetAdmission("a", 100), memory=GuardMemory(grew_s=999.0, changed_s=999.0))[1] == []


def test_what_was_done_is_remembered_and_what_was_only_let_through_is_not() -> None:
    memory = GuardMemory()
    passed(ScaleExecutors(2), memory=memory)
    assert memory == GuardMemory(), "a guard may run in a mode that only recommends"
    context = GuardContext(1000.0, pool(3), POLICY, memory)
    remember(ScaleExecutors(2), context)
    assert (memory.changed_s, memory.grew_s, memory.disruptions_s) == (1000.0, None, [1000.0])
    remember(ScaleExecutors(4), context)
    assert memory.grew_s == 1000.0


def test_the_executor_seconds_of_a_day_are_counted_from_its_midnight() -> None:
    memory = GuardMemory()
    for time_s in (86_390.0, 86_395.0, 86_405.0, 86_410.0):
        watch(memory, time_s, pool(3), POLICY)
    assert memory.spent_s == 3 * 10.0
    watch(memory, 90_000.0, pool(3), POLICY)
    assert memory.spent_s == 3 * 10.0, "a gap in the watch is not counted"


def test_each_knob_can_be_taken_away_and_no_other_goes_with_it() -> None:
    assert set(EVERY_KNOB) == set(KnobRule.model_fields)
    for forbidden in EVERY_KNOB:
        for knob, action in EVERY_KNOB.items():
            done, held = guarded(action, policy={"knobs": {forbidden: False}})
            assert (done is None) == (knob == forbidden)
            if knob == forbidden:
                assert [(one.guard, one.reason.text) for one in held] == [
                    ("knobs", f"the policy forbids it (knobs.{knob}: false)")
                ]


FREEZE = {"cron": "0 18 * * *", "for": "6h", "reason": "evening"}


@pytest.mark.parametrize(
    ("action", "growth", "goes_on"),
    [
        (ScaleExecutors(2), True, False),
        (ScaleExecutors(4), True, True),
        (ScaleExecutors(4), False, False),
        (SetParallelism("a", "b", 3), True, False),
        (SetBatchInterval("a", 2.0), True, False),
        (MoveState("a", 0, "1"), True, False),
        (AddHost("east-2", "east"), True, True),
        (AddHost("east-2", "east"), False, False),
        (SetAdmission("a", 100), False, True),
        (SetShare("a", 0.5), False, True),
    ],
)
def test_a_freeze_holds_what_disturbs(action: Action, growth: bool, goes_on: bool) -> None:
    policy = {"freeze": [FREEZE | {"growth": growth}]}
    done, held = guarded(action, time_s=19 * HOUR_S, policy=policy)
    assert done == (action if goes_on else None)
    if not goes_on:
        assert [(one.guard, one.reason.text) for one in held] == [
            ("freeze", "frozen for 6h from '0 18 * * *' (evening)")
        ]
    assert guarded(action, time_s=17 * HOUR_S, policy=policy)[0] == action


def test_a_freeze_also_holds_the_way_back_into_the_bounds() -> None:
    done, held = guarded(ScaleExecutors(9), now=8, time_s=19 * HOUR_S, policy={"freeze": [FREEZE]})
    assert done is None, "six would be a shrink"
    assert [one.guard for one in held] == ["bounds", "freeze"]


MINIMUM = {"minimum": [{"cron": "0 7 * * *", "for": "3h", "executors": 5}]}


@pytest.mark.parametrize(
    ("wanted", "now", "hour", "done", "guards"),
    [
        (3, 2, 6, 3, []),
        (3, 2, 8, 5, ["scheduled-minimum"]),
        (5, 2, 8, 5, []),
        (4, 5, 8, None, ["scheduled-minimum"]),
        (4, 6, 8, 5, ["scheduled-minimum"]),
        (4, 5, 10, 4, []),
    ],
)
def test_a_scheduled_minimum(wanted: int, now: int, hour: int, done: int | None, guards: list[str]) -> None:
    found, held = guarded(ScaleExecutors(wanted), now, hour * HOUR_S, executors=MINIMUM)
    assert found == (None if done is None else ScaleExecutors(done))
    assert [one.guard for one in held] == guards


@pytest.mark.parametrize(
    ("wanted", "now", "spent_h", "done", "guards"),
    [
        (4, 3, 24, 4, []),  # of 72 executor-hours, 23 are kept for a minimum of two to the end of the day
        (4, 3, 48, None, ["budget"]),  # one more hour is left, and a pool of three uses it
        (4, 3, 49, 2, ["budget"]),
        (3, 2, 48, 3, []),
        (3, 2, 49, None, ["budget"]),
        (2, 3, 60, 2, []),
    ],
)
def test_a_budget(wanted: int, now: int, spent_h: float, done: int | None, guards: list[str]) -> None:
    money = {"price_per_hour": 0.5, "budget_per_day": 36}
    found, held = guarded(ScaleExecutors(wanted), now, 12.5 * HOUR_S, executors=money, spent_today=spent_h * HOUR_S)
    assert found == (None if done is None else ScaleExecutors(done))
    assert [one.guard for one in held] == guards


def test_a_budget_that_is_spent_says_so() -> None:
    money = {"price_per_hour": 0.5, "budget_per_day": 36}
    _, held = guarded(ScaleExecutors(5), 2, 12 * HOUR_S, executors=money, spent_today=60 * HOUR_S)
    assert held[0].reason.text == "5 executors wanted; 30.00 of 36 spent today: at most 2 are affordable now"


def test_a_disruption_counts_for_exactly_an_hour() -> None:
    spent = [1000.0, 1000.0]
    assert passed(ScaleExecutors(2), time_s=1000.0 + HOUR_S, memory=GuardMemory(disruptions_s=spent))[1] == []
    held = passed(ScaleExecutors(2), time_s=999.5 + HOUR_S, memory=GuardMemory(disruptions_s=spent))[1]
    assert held == ["disruption-budget"]
    memory = GuardMemory(disruptions_s=[1000.0, 1000.5])
    remember(ScaleExecutors(2), GuardContext(1000.0 + HOUR_S, pool(3), POLICY, memory))
    assert memory.disruptions_s == [1000.5, 1000.0 + HOUR_S], "what is older than an hour is forgotten"


def test_a_change_cools_down_for_exactly_its_time() -> None:
    assert passed(ScaleExecutors(4), memory=GuardMemory(grew_s=990.0))[1] == []
    held = guarded(ScaleExecutors(2), now=3)[1]
    assert held == []
    context = GuardContext(1000.0, pool(3), POLICY, GuardMemory(changed_s=960.0))
    _, (one,) = guard((Proposal(ScaleExecutors(2), Reason("test", "because"), score=2.0, urgent=True),), context)
    assert one == Held(
        "cool-down", ScaleExecutors(2), Reason("cool-down", "the last change was 40 s ago; wait 20 s more"), 2.0, True
    )


@pytest.mark.parametrize("action", [action for knob, action in EVERY_KNOB.items() if knob != "executors"], ids=str)
def test_guards_of_the_pool_leave_other_knobs_alone(action: Action) -> None:
    """Even while a minimum is scheduled, the budget is spent and the pool has just changed."""
    money = {"price_per_hour": 0.5, "budget_per_day": 36}
    policy = Policy.model_validate(STATED | {"executors": {"min": 2, "max": 6, **MINIMUM, **money}})
    memory = GuardMemory(grew_s=8 * HOUR_S, changed_s=8 * HOUR_S)
    where = replace(pool(3), scalable=False)
    context = GuardContext(8 * HOUR_S, where, policy, memory, spent_today=72 * HOUR_S)
    assert guard((Proposal(action, Reason("test", "because")),), context) == ((action,), ())
    remember(action, context)
    assert (memory.grew_s, memory.changed_s) == (8 * HOUR_S, 8 * HOUR_S)


@pytest.mark.parametrize(
    ("wanted", "now", "done"), [(6, 1, 4), (12, 2, 8), (12, 5, 12), (1, 9, 5), (1, 3, 1), (30, 40, 20), (2, 40, 20)]
)
def test_a_pool_grows_fourfold_or_halves_at_most_and_returns_into_its_bounds(wanted: int, now: int, done: int) -> None:
    found, _ = guarded(ScaleExecutors(wanted), now, executors={"min": 1, "max": 20})
    assert found == ScaleExecutors(done)


def fleet(host: str | None) -> FleetSample:
    return FleetSample((), (FleetApplication("a", None, 1.0, host, host),))


@pytest.mark.parametrize(("where", "goes_on"), [(fleet("east-1"), False), (fleet(None), True), (None, True)])
def test_a_freeze_holds_the_move_of_a_running_application_only(where: FleetSample | None, goes_on: bool) -> None:
    move = MoveApplication("a", "east-2")
    done, _ = guarded(move, time_s=19 * HOUR_S, policy={"freeze": [FREEZE]}, fleet=where)
    assert done == (move if goes_on else None)
    other, _ = guarded(MoveApplication("b", "east-2"), time_s=19 * HOUR_S, policy={"freeze": [FREEZE]}, fleet=where)
    assert other is not None, "one that is not known runs nowhere"


def test_the_centre_of_a_fleet_does_not_count_disruptions() -> None:
    memory = GuardMemory(disruptions_s=[900.0, 950.0])
    restart = SetParallelism("a", "b", 3)
    context = GuardContext(1000.0, pool(3), POLICY, memory, fleet=fleet("east-1"))
    assert guard((Proposal(restart, Reason("test", "because")),), context) == ((restart,), ())


def test_every_proposal_is_guarded_by_itself() -> None:
    context = GuardContext(1000.0, pool(3), POLICY, GuardMemory(disruptions_s=[900.0, 950.0]))
    wishes = tuple(Proposal(action, Reason("test", "because")) for action in (ScaleExecutors(2), SetShare("a", 0.5)))
    actions, held = guard(wishes, context)
    assert (actions, [one.guard for one in held]) == ((SetShare("a", 0.5),), ["disruption-budget"])


@pytest.mark.parametrize(("gap_s", "counted_s"), [(0.5, 0.5), (59.5, 59.5), (60.0, 0.0), (0.0, 0.0), (-5.0, 0.0)])
def test_time_is_paid_for_only_where_it_was_watched(gap_s: float, counted_s: float) -> None:
    memory = GuardMemory()
    assert memory.spent_s == GuardContext(0.0, pool(3), POLICY, memory).spent_today == 0.0
    for time_s in (1000.0, 1000.0 + gap_s):
        watch(memory, time_s, pool(3), POLICY)
    assert memory.spent_s == 3 * counted_s
