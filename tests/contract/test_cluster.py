"""One suite for every world behind the `Cluster` port: what the controller relies on holds in both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.control.ports import Cluster
from tidegate.domain import (
    Action,
    Decision,
    Observation,
    Outcome,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetParallelism,
)
from tidegate.domain.codec import from_json, to_json
from tidegate.load import Constant
from tidegate.sim import SimApplication, SimCluster, SimOperator

RATE = 200


@dataclass
class World:
    """A cluster with one application named `app`, and a way to let time pass in it."""

    cluster: Cluster
    pass_time: Callable[[float], Any]
    patience_s: float

    def apply(self, *actions: Action) -> Receipt:
        return self.cluster.apply(Decision(1, 0.0, actions, (), ()))

    def until(self, condition: Callable[[list[Observation]], Any], what: str) -> list[Observation]:
        """Observe every second until the condition holds of all that was seen."""
        seen: list[Observation] = []
        waited_s = 0.0
        while not (seen and condition(seen)):
            assert waited_s < self.patience_s, f"waited {waited_s:.0f} s in vain for {what}"
            self.pass_time(1.0)
            waited_s += 1.0
            seen.append(self.cluster.observe())
        return seen


def simulated() -> Iterator[World]:
    operators = (SimOperator("lines", 0.0001, 2), SimOperator("lookup", 0.002, 4), SimOperator("count", 0.0001, 2))
    application = SimApplication("app", Constant(rate=RATE), 1.0, 0.3, operators=operators, admission_rows=5000)
    cluster = SimCluster(applications=[application], executors=1, slots_per_executor=2, max_executors=2)

    def pass_time(seconds: float) -> None:
        cluster.clock.sleep_until(cluster.clock.now_s() + seconds)

    yield World(cluster, pass_time, patience_s=200)


def live(request: pytest.FixtureRequest) -> Iterator[World]:
    from tidegate.domain.policy import Policy
    from tidegate.spark.cluster import SparkCluster
    from tidegate.spark.pool import settle_executors
    from tidegate.spark.queries import RestartableQuery
    from tidegate.spark.settings import Settings
    from tidegate.spark.source import TidegateSource
    from tidegate.workloads.wordcount import WordCount

    spark = request.getfixturevalue("spark")
    folder = request.getfixturevalue("tmp_path")
    settle_executors(spark, 1)
    spark.dataSource.register(TidegateSource)
    cluster = SparkCluster(spark, Policy())
    job = WordCount(Constant(rate=RATE), lookup_s=0.002, lookup_tasks=4, count_tasks=2, rows_per_trigger=5000)
    settings = Settings("app", gate=str(folder / "gate.json"), checkpoint=str(folder / "checkpoint"))
    query = RestartableQuery(spark, job.build, settings)
    cluster.restartable["app"] = query
    yield World(cluster, time.sleep, patience_s=120)
    query.query.stop()
    cluster.close()
    settle_executors(spark, 1)


@pytest.fixture(params=["sim", pytest.param("spark", marks=pytest.mark.spark)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    yield from simulated() if request.param == "sim" else live(request)


def batches_of(seen: list[Observation]) -> list[Any]:
    return [batch for one in seen for application in one.applications for batch in application.batches]


def test_each_batch_is_told_once_in_order_with_its_numbers(world: World) -> None:
    seen = world.until(lambda seen: len([b for b in batches_of(seen) if b.rows]) >= 5, "five batches")
    found = batches_of(seen)
    ids = [batch.batch_id for batch in found]
    assert ids == sorted(set(ids))
    times = [observation.time_s for observation in seen]
    assert times == sorted(times)
    for batch in found:
        if batch.rows:
            assert batch.duration_s > 0
            assert batch.busy_s > 0
            assert batch.backlog_rows is not None
            assert batch.latency.rows == batch.rows
            assert batch.latency.max_s >= batch.duration_s
            assert [operator.name for operator in batch.operators] == ["lines", "lookup", "count"]
            assert sum(operator.busy_s for operator in batch.operators) == pytest.approx(batch.busy_s)
    application = seen[-1].applications[0]
    assert (application.name, application.interval_s, application.running) == ("app", 1.0, True)
    assert application.gated
    assert application.restartable


def test_observations_survive_being_written_down(world: World) -> None:
    seen = world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    for observation in seen:
        assert from_json(Observation, to_json(observation)) == observation


def test_a_target_is_reached_and_asking_twice_changes_nothing(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    first = world.apply(ScaleExecutors(2))
    assert first.actions[0].outcome in {Outcome.DONE, Outcome.UNDER_WAY}
    assert world.cluster.observe().pool.requested == 2
    world.until(lambda seen: seen[-1].pool.registered == 2, "two executors")
    again = world.apply(ScaleExecutors(2))
    assert again.actions[0].outcome is Outcome.DONE
    assert world.cluster.observe().pool.slots == 4
    world.apply(ScaleExecutors(1))
    world.apply(ScaleExecutors(1))
    seen = world.until(lambda seen: seen[-1].pool.registered == 1, "one executor")
    assert seen[-1].pool.requested == 1
    before = len(batches_of(seen))
    world.until(lambda later: len([b for b in batches_of(later) if b.rows]) >= 2, f"batches beyond the first {before}")


def test_admission_bounds_the_batches(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    assert world.apply(SetAdmission("app", 20)).actions[0].outcome is Outcome.DONE
    assert world.cluster.observe().applications[0].admission_rows == 20
    seen = world.until(lambda seen: batches_of(seen) and batches_of(seen)[-1].rows == 20, "a batch of 20 rows")
    assert batches_of(seen)[-1].backlog_rows > 0


def test_what_cannot_be_done_is_refused_not_raised(world: World) -> None:
    receipt = world.apply(SetAdmission("nobody", 20), SetParallelism("nobody", "lookup", 2))
    assert [answer.outcome for answer in receipt.actions] == [Outcome.REFUSED, Outcome.REFUSED]
    assert all(answer.note for answer in receipt.actions)
