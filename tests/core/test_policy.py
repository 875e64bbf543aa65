"""What a policy says of applications, of times and of money."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.control.policyfile import policy_from
from tidegate.domain.money import HOUR_S, affordable_executors, cost
from tidegate.domain.policy import Policy
from tidegate.domain.python310 import UTC

FRIDAY_S = datetime(2024, 6, 7, tzinfo=UTC).timestamp()


def test_objectives_come_from_the_application_then_its_class_then_the_policy() -> None:
    policy = policy_from(
        {
            "objective": {"latency_s": 20, "percentile": 0.9},
            "classes": {"gold": {"latency_s": 5}, "strict": {"percentile": 0.999}},
            "applications": {
                "own": {"class": "gold", "objective": {"latency_s": 2}},
                "gold": {"class": "gold"},
                "strict": {"class": "strict"},
                "share": {"objective": {"percentile": 0.5}},
                "ignored": {"ignore": True},
            },
        }
    )
    found = {name: policy.objective_of(name) for name in (*policy.applications, "unnamed")}
    assert {name: (one.latency_s, one.percentile) for name, one in found.items()} == {
        "own": (2, 0.9),
        "gold": (5, 0.9),
        "strict": (20, 0.999),
        "share": (20, 0.5),
        "ignored": (20, 0.9),
        "unnamed": (20, 0.9),
    }
    assert [name for name in found if policy.ignores(name)] == ["ignored"]


def test_a_class_holds_with_the_objective_of_the_application() -> None:
    policy = policy_from(
        {
            "classes": {"gold": {"latency_s": 5, "weight": 6}},
            "applications": {"a": {"class": "gold", "objective": {"latency_s": 2}}},
        }
    )
    assert (policy.class_of("a").weight, policy.class_of("a").latency_s) == (6, 2)
    assert (policy.class_of("b").weight, policy.class_of("b").latency_s) == (1, 10)
    assert (policy.class_name("a"), policy.class_name("b")) == ("gold", None)


def test_the_largest_scheduled_minimum_counts() -> None:
    policy = policy_from(
        {
            "timezone": "Europe/Berlin",
            "executors": {
                "min": 2,
                "max": 9,
                "minimum": [
                    {"cron": "0 7 * * *", "for": "4h", "executors": 4},
                    {"cron": "0 8 * * fri", "for": "1h", "executors": 6},
                    {"cron": "0 22 * * *", "for": "1h", "executors": 1},
                ],
            },
        }
    )
    hours = {hour: policy.least_executors(FRIDAY_S + hour * HOUR_S) for hour in (4, 5, 6, 7, 9, 20)}
    assert hours == {4: 2, 5: 4, 6: 6, 7: 4, 9: 2, 20: 2}, "Berlin is two hours ahead in June"
    assert policy.next_change_s(FRIDAY_S + 4 * HOUR_S) == FRIDAY_S + 5 * HOUR_S


def test_of_several_freezes_the_strictest_counts() -> None:
    policy = policy_from(
        {
            "freeze": [
                {"cron": "0 18 * * 5", "for": "62h", "reason": "weekend"},
                {"cron": "0 20 * * *", "for": "1h", "growth": False, "reason": "close of books"},
            ]
        }
    )
    assert policy.frozen(FRIDAY_S) is None
    weekend, books = policy.frozen(FRIDAY_S + 19 * HOUR_S), policy.frozen(FRIDAY_S + 20.5 * HOUR_S)
    assert weekend is not None
    assert str(weekend) == "frozen for 62h from '0 18 * * 5' (weekend)"
    assert books is not None
    assert (books.growth, books.reason) == (False, "close of books")
    assert Policy().next_change_s(FRIDAY_S) is None


@given(
    budget=st.floats(24, 500),
    spent_h=st.floats(0, 600),
    left_h=st.floats(0.01, 25),
    least=st.integers(1, 3),
    price=st.floats(0.1, 2),
)
def test_what_is_affordable_leaves_the_minimum_paid_for(
    budget: float, spent_h: float, left_h: float, least: int, price: float
) -> None:
    affordable = affordable_executors(budget, price, spent_h * HOUR_S, left_h * HOUR_S, least)
    assert affordable >= least
    if affordable > least:
        committed_h = (affordable - least) * min(left_h, 1.0) + least * left_h
        assert cost((spent_h + committed_h) * HOUR_S, price) <= budget * (1 + 1e-6)
        more = affordable_executors(budget, price, (spent_h + 1) * HOUR_S, left_h * HOUR_S, least)
        assert more <= affordable


def test_a_day_is_never_overspent_by_more_than_a_step() -> None:
    """Always the largest pool that is affordable, looked at every five minutes."""
    policy = policy_from({"executors": {"max": 20, "price_per_hour": 0.5, "budget_per_day": 40}})
    spent, sizes = 0.0, []
    for minute in range(0, 24 * 60, 5):
        sizes.append(policy.most_executors(FRIDAY_S + minute * 60, spent))
        spent += sizes[-1] * 300
    assert sizes[0] == 20
    assert min(sizes) >= 1
    assert 0.9 * 40 <= policy.cost(spent) <= 40


def test_without_a_budget_the_maximum_stands() -> None:
    assert Policy().affordable_executors(FRIDAY_S, 1e9) is None
    assert Policy().most_executors(FRIDAY_S, 1e9) == 4


def test_a_scheduled_minimum_is_kept_when_the_money_is_gone() -> None:
    minimum = [{"cron": "0 7 * * *", "for": "2h", "executors": 3}]
    policy = policy_from({"executors": {"budget_per_day": 24, "minimum": minimum}})
    gone_s = 24 * HOUR_S
    assert policy.most_executors(FRIDAY_S + 6 * HOUR_S, gone_s) == 1
    assert policy.most_executors(FRIDAY_S + 7 * HOUR_S, gone_s) == 3


def test_a_budgets_day_begins_at_midnight_of_the_time_zone() -> None:
    policy = policy_from({"timezone": "Asia/Tokyo"})
    assert policy.day_start_s(FRIDAY_S) == pytest.approx(FRIDAY_S - 9 * HOUR_S)
