"""What every experiment on an attached session does: warm the executors up, and notice at once when something ended."""

from __future__ import annotations

import time

from tidegate.adapters.spark.attach import Gate
from tidegate.adapters.spark.restartablequery import Build
from tidegate.domain import EnvironmentUnfit

_BATCHES, _LIMIT_S = 6, 120.0


def warm_up(gate: Gate, build: Build) -> None:
    """Have the executors run some Python and some state, with this job, before anything is measured."""
    query = gate.start("warm-up", build)
    deadline_s = time.time() + _LIMIT_S
    while len(query.query.recentProgress) < _BATCHES:
        check_alive(gate)
        if time.time() > deadline_s:
            raise EnvironmentUnfit("the cluster did not start processing in time")
        time.sleep(0.2)
    query.stop_at_boundary()
    gate.forget(query.name)


def check_alive(gate: Gate) -> None:
    """Raise if control or a query has ended: what follows would measure nothing."""
    if gate.failure is not None:
        raise EnvironmentUnfit(f"control ended early: {gate.failure}")
    for query in gate.queries():
        if (error := query.query.exception()) is not None:
            raise EnvironmentUnfit(f"the query failed: {str(error).splitlines()[0]}")
