"""A query as its tenant sees it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tidegate.fleet.sparkhost import SparkQuery


class Query:
    """Records what is done to it. Stopping fails if told so."""

    def __init__(self, fails: bool) -> None:
        self.log: list[str] = []
        self._fails = fails

    def stop_at_boundary(self) -> None:
        self._stop()

    def kill(self) -> None:
        self._stop()

    def await_rebalance(self) -> None:
        """None is under way."""

    def _stop(self) -> None:
        if self._fails:
            raise RuntimeError("the JVM is gone")
        self.log.append("stopped")


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("fails", [False, True])
def test_it_is_controlled_with_its_objective_until_nothing_of_it_runs(how: str, fails: bool) -> None:
    query = Query(fails)
    seen = SparkQuery(cast(Any, query), lambda: query.log.append("forgotten"))
    try:
        getattr(seen, how)()
    except RuntimeError:
        assert fails
    assert query.log[-1] == "forgotten"
    assert query.log.index("forgotten") == len(query.log) - 1
    assert fails or query.log[0] == "stopped"
