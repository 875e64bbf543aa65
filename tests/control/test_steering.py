"""Requests of people: taken up by the control thread, refused where they make no sense."""

from __future__ import annotations

import pytest

from tidegate.control.steering import Steering, SteerRequest, with_bounds
from tidegate.domain import InvalidInput, Mode, ScaleExecutors
from tidegate.domain.policy import Policy


def test_resume_restores_the_mode_from_before() -> None:
    steering, policy = Steering(), Policy(mode=Mode.RECOMMEND)
    paused, _ = steering.applied(SteerRequest("pause", "ann"), policy)
    assert (paused.mode, steering.paused) == (Mode.OFF, True)
    assert steering.applied(SteerRequest("pause", "bob"), paused) == (paused, "already paused")
    resumed, text = steering.applied(SteerRequest("resume", "ann"), paused)
    assert (resumed.mode, text, steering.paused) == (Mode.RECOMMEND, "resumed in mode recommend", False)
    assert steering.applied(SteerRequest("resume", "ann"), resumed)[0] == resumed


def test_another_policy_ends_a_pause() -> None:
    steering = Steering()
    steering.applied(SteerRequest("pause", "ann"), Policy())
    steering.forget()
    assert not steering.paused


def test_bounds_that_contradict_each_other_are_refused_at_once() -> None:
    steering = Steering()
    with pytest.raises(InvalidInput, match="above max"):
        steering.ask(SteerRequest("bounds", "ann", least=9), Policy())
    assert steering.requests() == []
    assert with_bounds(Policy(), 2, 8).executors.max == 8


def test_bounds_keep_scheduled_minimums() -> None:
    policy = Policy.model_validate(
        {"executors": {"max": 4, "minimum": [{"cron": "0 7 * * *", "for": "3h", "executors": 3}]}}
    )
    changed = with_bounds(policy, None, 5)
    assert changed.executors.minimum == policy.executors.minimum
    with pytest.raises(InvalidInput):
        with_bounds(policy, None, 2)


def test_an_approval_holds_for_one_tick() -> None:
    steering, wanted = Steering(), (ScaleExecutors(3),)
    steering.ask(SteerRequest("apply", "ann", actions=wanted), Policy())
    assert steering.requests() == []
    assert steering.approval() == SteerRequest("apply", "ann", actions=wanted)
    assert steering.approval() is None


def test_requests_do_not_pile_up() -> None:
    steering = Steering()
    for _ in range(32):
        steering.ask(SteerRequest("pause", "ann"), Policy())
    with pytest.raises(InvalidInput, match="too many"):
        steering.ask(SteerRequest("pause", "ann"), Policy())
