"""What a host does around Spark, without Spark: restarts that must not look like ends, and recipes."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.domain import (
    ApplicationSample,
    ArrivalSample,
    BatchSample,
    InvalidInput,
    LatencySample,
    OperatorSample,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate.measurement import plan_measurements
from tidegate.fleet.applicationfigures import ApplicationFigures
from tidegate.fleet.recipe import load_build
from tidegate.fleet.sparkhost import SparkQuery
from tidegate.fleet.vocabulary import ApplicationSpec


class FakeQuery:
    def __init__(self) -> None:
        self.isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class Rebalanced(RestartableQuery):
    """The query's own locks around a rebalance that stops the old query, waits, and starts another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = False
        self._failure = None
        self.query = FakeQuery()  # type: ignore[assignment]
        self.stopped, self.go_on = threading.Event(), threading.Event()

    def rebalance(self, *_: Any) -> Any:
        with self._lock:
            self.query.stop()
            self.stopped.set()
            self.go_on.wait(10)
            if not self._over:
                self.query = FakeQuery()  # type: ignore[assignment]


def rebalancing() -> tuple[SparkQuery, Rebalanced, threading.Thread]:
    inner = Rebalanced()
    thread = threading.Thread(target=inner.rebalance)
    thread.start()
    assert inner.stopped.wait(10)
    return SparkQuery(inner), inner, thread


def test_a_rebalance_does_not_look_like_an_end() -> None:
    query, inner, thread = rebalancing()
    assert query.failure() is None
    inner.go_on.set()
    thread.join()
    assert query.failure() is None
    inner.query.stop()
    assert query.failure() == "the query has ended"


def test_a_query_that_is_killed_in_the_middle_of_a_rebalance_stays_dead() -> None:
    query, inner, thread = rebalancing()
    killer = threading.Thread(target=query.kill)
    killer.start()
    killer.join(0.1)
    assert killer.is_alive(), "whether anything of it still runs is not known before the rebalance has ended"
    inner.go_on.set()
    thread.join()
    killer.join()
    assert not inner.query.isActive


def test_recipes_come_from_files_and_modules(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("def build(spark, settings, rate=1):\n    return rate\n\nvalue = 3\n")
    build: Any = load_build(ApplicationSpec("a", str(file), {"rate": 5}))
    assert build(None, None) == 5
    assert callable(load_build(ApplicationSpec("a", "tidegate_lab.experiments.fleet_run:build")))
    file.with_name("broken.py").write_text("import nothing_like_this\n")
    wrong = {
        str(tmp_path / "none.py"): "no such file",
        f"{file}:value": "has no function value",
        str(tmp_path / "broken.py"): "cannot be imported: ModuleNotFoundError",
        "no.such.module:build": "cannot be imported",
    }
    for recipe, message in wrong.items():
        with pytest.raises(InvalidInput, match=message):
            load_build(ApplicationSpec("a", recipe))


def batch(number: int, started_s: float, rows: int, busy_s: float, tasks: int = 1) -> BatchSample:
    operator = OperatorSample("lookup", tasks, rows, busy_s, None, None, None)
    latency = LatencySample(rows, 1.0, 2.0, 3.0 + number, 9.0)
    return BatchSample(number, started_s, 2.0, rows, busy_s, 0.1, 0, latency, (operator,), warming=number == 0)


def test_figures_are_sums_over_a_window() -> None:
    figures = ApplicationFigures()
    batches = tuple(batch(number, 100.0 + 5 * number, 50, 2.5) for number in range(4))
    figures.take(ApplicationSample("a", batches, 117.0, 5.0), 118.0)
    summary = figures.summary(118.0)
    assert summary.load_slots == pytest.approx(0.5), "2.5 slot-seconds every 5 s; the first batch was cold"
    assert summary.latency_p99_s == 6.0
    assert summary.rows_done == 200
    seen = figures.operator("lookup", 118.0)
    assert seen is not None
    assert (seen.replicas, seen.rows_per_s, seen.utilisation) == (1, pytest.approx(10.0), pytest.approx(0.5))
    assert seen.busy_s_per_row == pytest.approx(0.05)
    assert figures.operator("other", 118.0) is None
    figures.take(ApplicationSample("a", (batch(4, 120.0, 50, 2.5, tasks=2),), 122.0, 5.0), 123.0)
    rescaled = figures.operator("lookup", 123.0)
    assert rescaled is not None
    assert (rescaled.replicas, rescaled.utilisation) == (2, pytest.approx(0.25)), "only batches of the new size count"
    first = replace(batch(5, 122.0, 50, 2.5, tasks=3), warming=True)
    figures.take(ApplicationSample("a", (first,), 124.0, 5.0), 125.0)
    assert figures.operator("lookup", 125.0) is None, "it no longer has two tasks, and nothing is known of three"
    assert figures.summary(300.0).load_slots is None, "old batches say nothing about now"


def test_the_load_is_that_of_the_rows_that_arrive() -> None:
    """On a full host fewer rows are processed than arrive. The slots that they need are still known."""
    figures = ApplicationFigures()
    for number in range(1, 5):
        now_s = 100.0 + 5 * number
        arrived = ArrivalSample(now_s, 100 * number)  # 20 rows/s, of which 10 are processed, at 50 ms each
        figures.take(ApplicationSample("a", (batch(number, now_s - 5.0, 50, 2.5),), now_s, 5.0, arrival=arrived), now_s)
    assert figures.summary(120.0).load_slots == pytest.approx(1.0)


def test_what_the_plan_asks_for_is_measured_over_the_window_and_nothing_else() -> None:
    table = [{"metric": "busy_s", "operator": "lookup", "bound": 5}, {"metric": "batch_duration_s", "bound": 3}]
    policy = Policy.model_validate({"applications": {"a": {"qos_table": table}}})
    plan = plan_measurements(policy, {"a": ["here"], "b": ["there"]}).for_host("here")
    assert plan.asked_of("b") == ()
    figures = ApplicationFigures(asked=plan.asked_of("a"))
    for number in range(7):
        sample = ApplicationSample("a", (batch(number, 100.0 + 5 * number, 50, float(number)),), 107.0, 5.0)
        figures.take(sample, 102.0 + 5 * number)
    # The window of 20 s holds the batches committed from 112 s to 132 s.
    assert figures.summary(132.0).measured == {"batch_duration_s": 2.0, "lookup.busy_s": 4.0}
    figures.asked = ()
    assert figures.summary(132.0).measured == {}
