"""A rescue: if an objective is missed or is going to be, ask for as many replicas as the load needs."""

from __future__ import annotations

import math

from tidegate.managers.policies.localpolicy import OperatorLimits, OperatorView, Wish

_MOST_AT_ONCE = 3
_BUSY = 0.8
"""Busy share that a rescue aims for."""


def rescued(wish: Wish, view: OperatorView, limits: OperatorLimits) -> tuple[Wish, bool]:
    """The wish and whether it is urgent. The load is measured by arrivals, so a rescue need not wait for a restart.

    If rows arrive faster than the replicas can process them, the objective will be missed, however short the latency
    still is. One restart for all that is needed is better than one restart for each replica.

    >>> limits = OperatorLimits(1, 8, objective_s=2.0, full_rate_rows_per_s=800.0)
    >>> [rescued(Wish(1, 1.0, "busy", 1), view, limits)[0].change
    ...  for view in (OperatorView(2, 400.0, 1.0, response_s=9.0), OperatorView(2, 400.0, 1.0, response_s=0.5))]
    [3, 3]
    """
    newest = max(view.arrival_rows_per_s, view.newest_rows_per_s)
    missed = view.response_s > limits.objective_s
    if not missed and limits.replicas_for(newest) <= view.replicas:
        return wish, False
    # A load that rises is expected to rise by as much again: a second restart would cost more than a spare replica.
    demand = limits.replicas_for(2 * newest - view.arrival_rows_per_s)
    needed = min(math.ceil(demand / _BUSY), limits.most)
    missing = min(needed - view.replicas, _MOST_AT_ONCE)
    if missing < max(1, wish.change):
        return wish, missed and wish.change > 0
    text = f"response {view.response_s:.1f} s above {limits.objective_s:.1f} s"
    if not missed:
        text = f"the rows that arrive will keep {demand:.1f} tasks busy"
    return Wish(missing, max(wish.score, 1.0) + missing, text, missing), True
