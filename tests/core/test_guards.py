"""Every guard names itself, and limits what it is there for."""

import pytest

from tests.core.worlds import pool
from tidegate.domain import Action, Proposal, Reason, ScaleExecutors, SetAdmission, SetParallelism
from tidegate.domain.policy import Policy
from tidegate.planning.guards import GuardContext, GuardMemory, guard

POLICY = Policy.model_validate(
    {
        "executors": {"min": 2, "max": 6, "step_up": 2},
        "guards": {"cool_down_up_s": 10, "cool_down_down_s": 60, "disruptions_per_hour": 2},
    }
)


def passed(
    action: Action, now: int = 3, time_s: float = 1000.0, memory: GuardMemory | None = None, scalable: bool = True
) -> tuple[tuple[Action, ...], list[str]]:
    from dataclasses import replace

    context = GuardContext(time_s, replace(pool(now), scalable=scalable), POLICY, memory or GuardMemory())
    actions, held = guard((Proposal(action, Reason("test", "because")),), context)
    return actions, [found.guard for found in held]


@pytest.mark.parametrize(
    ("wanted", "now", "done", "guards"),
    [
        (4, 3, 4, []),
        (6, 3, 5, ["step-size"]),
        (9, 5, 6, ["bounds"]),
        (1, 3, 2, ["bounds"]),
        (9, 6, None, ["bounds"]),
        (2, 4, 3, ["step-size"]),
        (5, 1, 3, ["step-size"]),
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


def test_a_limit_that_takes_a_restart_is_a_disruption_and_one_at_a_gate_is_not() -> None:
    proposals = tuple(Proposal(SetAdmission(name, 100), Reason("test", "because")) for name in ("files", "gated"))
    memory = GuardMemory(disruptions_s=[500.0, 600.0])
    actions, held = guard(proposals, GuardContext(1000.0, pool(3), POLICY, memory, frozenset({"files"})))
    assert actions == (SetAdmission("gated", 100),)
    assert [found.guard for found in held] == ["disruption-budget"]


def test_the_disruption_budget_holds_shrinks_and_restarts_but_not_rescues() -> None:
    spent = GuardMemory(disruptions_s=[500.0, 600.0])
    assert passed(ScaleExecutors(2), memory=spent) == ((), ["disruption-budget"])
    assert passed(SetParallelism("a", "b", 3), memory=spent) == ((), ["disruption-budget"])
    assert passed(ScaleExecutors(4), memory=spent)[0] == (ScaleExecutors(4),)
    assert passed(ScaleExecutors(2), time_s=4200.0, memory=spent)[0] == (ScaleExecutors(2),)


def test_a_pool_that_is_not_ours_is_left_alone() -> None:
    assert passed(ScaleExecutors(4), scalable=False) == ((), ["scalable"])


def test_admission_disturbs_nobody() -> None:
    assert passed(SetAdmission("a", 100), memory=GuardMemory(grew_s=999.0, changed_s=999.0))[1] == []


def test_what_passes_is_remembered() -> None:
    memory = GuardMemory()
    passed(ScaleExecutors(2), memory=memory)
    assert (memory.changed_s, memory.grew_s, memory.disruptions_s) == (1000.0, None, [1000.0])
