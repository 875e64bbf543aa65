"""What the world answers: refusals, silence, rollbacks, verdicts on trials, reversals that guards hold back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.worlds import pool
from tests.plan.operators.test_contract import slow
from tests.plan.operators.worlds import Desk, actions_of, answer, batch, operator
from tidegate.domain import ApplicationSample, Observation, Outcome, RebalanceReport, SetParallelism
from tidegate.plan.planner import Plan

MORE = SetParallelism("app", "work", 8)


def restarted(number: int, **changes: object) -> Observation:
    """The first look after a restart: its batch ran on cold processes."""
    seen = slow(number, **changes)  # type: ignore[arg-type]
    cold = replace(seen.applications[0].batches[0], warming=True)
    return replace(seen, applications=(replace(seen.applications[0], batches=(cold,)),))


def asking(desk: Desk, numbers: range, **changes: object) -> tuple[int, Plan]:
    """Look until something is asked for; the number of that look, and the plan."""
    for number in numbers:
        plan = desk.look(slow(number, **changes))  # type: ignore[arg-type]
        if plan.proposals:
            return number, plan
    raise AssertionError("nothing was asked for")


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED, None])
def test_what_is_asked_twice_in_vain_is_taken_for_fixed(outcome: Outcome | None) -> None:
    """No answer is one, too: the world takes the target for reached, and the operator runs as before."""
    desk, times = Desk(), 0
    for number in range(60):
        observation = slow(number)
        plan = desk.look(observation)
        times += bool(plan.proposals)
        answer(
            desk.proposer, observation.time_s, plan, {} if outcome is None else dict.fromkeys(actions_of(plan), outcome)
        )
    assert times == 2
    assert desk.memory.applications["app"].parallelism_ignored == {"work": 2}
    assert desk.memory.applications["app"].trial is None
    assert "it is fixed" in plan.reasons[0].text


def test_a_rollback_counts_once() -> None:
    desk = Desk()
    number, plan = asking(desk, range(15))
    answer(desk.proposer, slow(number).time_s, plan, {MORE: Outcome.UNDER_WAY})
    rolled_back = slow(number + 1, rebalance=RebalanceReport(done=False, pause_s=9.0, note="no room"))
    plan = desk.look(rolled_back)
    assert [reason.code for reason in plan.reasons] == ["rolled-back"]
    assert "no room" in plan.reasons[0].text
    # the world also says of the target that it failed, in answer to a decision that asked for nothing
    answer(desk.proposer, rolled_back.time_s, plan, {MORE: Outcome.FAILED})
    memory = desk.memory.applications["app"]
    assert memory.parallelism_ignored == {"work": 1}
    assert memory.trial is None
    assert desk.memory.pause_s("app", stateful=False, state_rows=0) == 9.0
    desk.look(slow(number + 2))
    assert memory.parallelism_ignored == {"work": 1}


def test_a_refused_operator_is_not_on_trial_with_the_others() -> None:
    """Of two operators one is refused: it counts once, and the trial is the other's alone."""
    desk = Desk()

    def two(number: int, first: int, second: int) -> Observation:
        stages = (
            operator("a", parallelism=first, execute_latency_s=1.0 / first),
            operator("b", parallelism=second, execute_latency_s=1.0 / second),
        )
        made = batch(number, *stages)
        sample = ApplicationSample("app", (made,), made.committed_s, 1.0, restartable=True)
        return Observation(made.committed_s + 0.1, (sample,), pool(2))

    for number in range(20):
        plan = desk.look(two(number, 1, 1))
        if plan.proposals:
            break
    refused, taken = (SetParallelism("app", name, 7) for name in "ab")
    assert set(actions_of(plan)) == {refused, taken}
    answer(desk.proposer, 140.0, plan, {refused: Outcome.REFUSED, taken: Outcome.UNDER_WAY})
    memory = desk.memory.applications["app"]
    assert memory.trial is not None
    assert memory.trial.after == {"b": 7}
    assert memory.parallelism_ignored == {"a": 1}
    for later in range(number + 1, number + 60):
        plan = desk.look(two(later, 1, 7))
        if memory.trial is None:
            break
    assert {reason.code for reason in plan.reasons} >= {"helped"}
    assert memory.parallelism_ignored == {"a": 1}


def test_a_harmful_change_goes_back_even_if_that_is_held_up_for_a_while() -> None:
    desk = Desk()
    number, plan = asking(desk, range(15))
    answer(desk.proposer, slow(number).time_s, plan, {MORE: Outcome.UNDER_WAY})
    waiting = []
    desk.look(restarted(number + 1, tasks=8))
    for later in range(number + 2, number + 25):
        # eight tasks take eight times the slots, and no less time: something inside is serial
        plan = desk.look(slow(later, tasks=8, busy_s=13.0))
        waiting.append(actions_of(plan))
    back = SetParallelism("app", "work", 1)
    first = waiting.index([back])
    assert all(asked == [back] for asked in waiting[first:]), "asked for until it is done"
    assert plan.proposals[0].reason.code == "reverse"
    answer(desk.proposer, slow(number + 24).time_s, plan, {back: Outcome.UNDER_WAY})
    memory = desk.memory.applications["app"]
    assert memory.reversal is None
    assert memory.trial is not None
    assert memory.trial.reversal
    desk.look(restarted(number + 25))
    plans = [desk.look(slow(later)) for later in range(number + 26, number + 70)]
    assert not any(plan.proposals for plan in plans), "it is not tried again"
    assert "did not help" in plans[-1].reasons[0].text


def test_a_verdict_outlives_a_slightly_different_pool_and_ends_with_a_much_larger_one() -> None:
    desk = Desk()
    number, plan = asking(desk, range(15))
    answer(desk.proposer, slow(number).time_s, plan, {MORE: Outcome.UNDER_WAY})
    desk.look(restarted(number + 1, tasks=8))
    for later in range(number + 2, number + 25):
        plan = desk.look(slow(later, tasks=8, busy_s=13.0))
    answer(desk.proposer, slow(number + 24).time_s, plan, dict.fromkeys(actions_of(plan), Outcome.UNDER_WAY))
    desk.look(restarted(number + 25))
    for later in range(number + 26, number + 50):
        desk.look(slow(later))
    for later in range(number + 50, number + 80):
        assert not desk.look(replace(slow(later), pool=pool(2, slots=5))).proposals, "10 slots instead of 8"
    plans = [desk.look(replace(slow(later), pool=pool(4))) for later in range(number + 80, number + 100)]
    assert any(plan.proposals for plan in plans), "16 slots instead of 8: worth another try"
