"""The cost of executors, and how many the rest of a day's budget can pay for."""

from __future__ import annotations

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def cost(executor_s: float, price_per_hour: float) -> float:
    """Return the price of this many executor-seconds.

    >>> cost(7200, price_per_hour=0.5)
    1.0
    """
    return executor_s / HOUR_S * price_per_hour


def affordable_executors(
    budget_per_day: float, price_per_hour: float, spent_today: float, left_s: float, least: int
) -> int:
    """Return the largest affordable pool after `spent_today` executor-seconds, with `left_s` seconds of the day left.

    First the minimum for the rest of the day is set aside. The remainder can buy more executors for an hour, or until
    the end of the day if that is sooner. A burst can thus be served at any time without spending the minimum's money:

        n = least + ⌊(budget ÷ price − spent − least · left) ÷ min(left, 1 h)⌋        in executor-seconds

    >>> [affordable_executors(20, 0.5, hours * HOUR_S, (24 - hours) * HOUR_S, least=1) for hours in (0, 12, 23)]
    [17, 17, 17]
    >>> affordable_executors(20, 0.5, 39 * HOUR_S, 4 * HOUR_S, least=1)  # spent, except for the minimum
    1
    """
    surplus = budget_per_day / price_per_hour * HOUR_S - spent_today - least * left_s
    if surplus <= 0 or left_s <= 0:
        return least
    return least + int(surplus / min(left_s, HOUR_S) + 1e-9)
