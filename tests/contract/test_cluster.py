"""One suite for every world behind the `Cluster` port: what the controller relies on holds in both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.domain import (
    Action,
    MoveState,
    Observation,
    Outcome,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetParallelism,
    SetShare,
    Targets,
)
from tidegate.domain.codec import from_json, to_json
from tidegate.load import Constant

RATE = 200


@dataclass
class World:
    """A cluster with one application named `app`, and a way to let time pass in it."""

    cluster: Any
    pass_time: Callable[[float], Any]
    patience_s: float
    targets: Targets = field(default_factory=Targets)

    def turn(self, *actions: Action) -> Receipt:
        """Ask for these levels beside those that were asked for before."""
        self.targets = self.targets.after(actions)
        return self.converge()

    def converge(self) -> Receipt:
        return self.cluster.converge(self.targets)

    def until(self, condition: Callable[[list[Observation]], Any], what: str) -> list[Observation]:
        """Observe and converge every second, as the runner does, until the condition holds of all that was seen."""
        seen: list[Observation] = []
        waited_s = 0.0
        while not (seen and condition(seen)):
            assert waited_s < self.patience_s, f"waited {waited_s:.0f} s in vain for {what}"
            self.pass_time(1.0)
            waited_s += 1.0
            seen.append(self.cluster.observe())
            self.converge()
        return seen


def simulated() -> Iterator[World]:
    operators = (
        SimOperator("lines", 0.0001, 2),
        SimOperator("lookup", 0.002, 4),
        SimOperator("count", 0.0001, 2, stateful=True),
    )
    application = SimApplication("app", Constant(rate=RATE), 1.0, 0.3, operators=operators, admission_rows=5000)
    cluster = SimCluster(applications=[application], executors=1, slots_per_executor=2, max_executors=2)

    def pass_time(seconds: float) -> None:
        cluster.clock.sleep_until(cluster.clock.now_s() + seconds)

    yield World(cluster, pass_time, patience_s=200)


def live(request: pytest.FixtureRequest) -> Iterator[World]:
    from tidegate.adapters.spark.cluster import SparkCluster
    from tidegate.adapters.spark.executors import settle_executors
    from tidegate.adapters.spark.restartablequery import RestartableQuery
    from tidegate.adapters.spark.settings import Settings
    from tidegate.adapters.spark.source import TidegateSource
    from tidegate.domain.policy import Policy
    from tidegate_lab.workloads.wordcount import WordCount

    spark = request.getfixturevalue("spark")
    folder = request.getfixturevalue("tmp_path")
    patience = "tidegate.adapters.spark.applications._STAGE_PATIENCE"  # a busy driver tells stages late
    request.getfixturevalue("monkeypatch").setattr(patience, 20)
    settle_executors(spark, 1)
    spark.dataSource.register(TidegateSource)
    cluster = SparkCluster(spark, Policy())
    job = WordCount(Constant(rate=RATE), lookup_s=0.002, lookup_tasks=4, count_tasks=2, rows_per_trigger=5000)
    settings = Settings("app", gate=str(folder / "gate.json"), checkpoint=str(folder / "checkpoint"))
    query = RestartableQuery(spark, job.build, settings)
    cluster.restartable["app"] = query
    yield World(cluster, time.sleep, patience_s=300)
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
            assert batch.latency.max_s >= batch.duration_s - batch.overhead_s, "rows may arrive until it is planned"
            assert [operator.name for operator in batch.operators] == ["lines", "lookup", "count"]
            assert sum(operator.busy_s for operator in batch.operators) == pytest.approx(batch.busy_s, abs=0.001)
    application = seen[-1].applications[0]
    assert (application.name, application.interval_s, application.running) == ("app", 1.0, True)
    assert application.gated
    assert application.restartable


def test_observations_survive_being_written_down(world: World) -> None:
    seen = world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    for observation in seen:
        assert from_json(Observation, to_json(observation)) == observation


def test_arrivals_are_counted_also_during_a_batch(world: World) -> None:
    seen = world.until(lambda seen: len([b for b in batches_of(seen) if b.rows]) >= 3, "three batches")
    counts = [one.applications[0].arrival for one in seen if one.applications and one.applications[0].arrival]
    rows = [count.arrived_rows for count in counts]
    assert rows == sorted(rows)
    assert rows[-1] >= sum(batch.rows for batch in batches_of(seen))


def test_a_target_is_reached_and_asking_twice_changes_nothing(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    first = world.turn(ScaleExecutors(2))
    assert [answer.action for answer in first.actions] == [ScaleExecutors(2)]
    assert first.actions[0].outcome in {Outcome.DONE, Outcome.UNDER_WAY}
    for answer in world.converge().actions:
        assert answer.outcome is Outcome.UNDER_WAY
    assert world.cluster.observe().pool.requested == 2
    world.until(lambda seen: seen[-1].pool.registered == 2, "two executors")
    assert world.converge().actions == ()
    assert world.cluster.observe().pool.slots == 4
    world.turn(ScaleExecutors(1))
    seen = world.until(lambda seen: seen[-1].pool.registered == 1, "one executor")
    assert seen[-1].pool.requested == 1
    world.until(lambda later: len([b for b in batches_of(later) if b.rows]) >= 2, "batches on one executor")


def test_a_state_partition_goes_where_it_is_told_and_stays(world: World) -> None:
    seen = world.until(has_state, "its state")
    first = seen[-1].pool.executors[0].id
    assert places_of(seen[-1]) == (first, first)
    assert seen[-1].applications[0].state_movable
    world.turn(ScaleExecutors(2))
    seen = world.until(lambda seen: seen[-1].pool.registered == 2, "two executors")
    second = next(executor.id for executor in seen[-1].pool.executors if executor.id != first)
    assert places_of(seen[-1]) == (first, first), "a new executor gets no state by itself"
    (answer,) = world.turn(MoveState("app", 1, second)).actions
    assert answer.action == MoveState("app", 1, second)
    assert answer.outcome in {Outcome.DONE, Outcome.UNDER_WAY}
    asked_s = time.time() if world.pass_time is time.sleep else world.cluster.observe().time_s
    seen = world.until(lambda seen: (first, second) in ran_on(seen, asked_s), "the move")
    assert (first, second) in ran_on(seen, asked_s)[:2], "in place within two batches"
    world.until(lambda seen: places_of(seen[-1]) == (first, second), "the move to be told")
    seen = world.until(lambda seen: len([b for b in batches_of(seen) if b.rows]) >= 3, "three batches")
    assert {batch.operators[-1].executors for batch in batches_of(seen) if batch.rows} == {(first, second)}
    assert world.converge().actions == (), "what is in place needs no answer"


def test_an_executor_is_emptied_before_it_goes(world: World) -> None:
    world.until(has_state, "its state")
    world.turn(ScaleExecutors(2))
    seen = world.until(lambda seen: seen[-1].pool.registered == 2, "two executors")
    older, younger = (executor.id for executor in seen[-1].pool.executors)
    world.turn(MoveState("app", 0, older), MoveState("app", 1, younger))
    world.until(lambda seen: places_of(seen[-1]) == (older, younger), "one partition on each")
    world.turn(ScaleExecutors(1))
    (going,) = [executor.id for executor in world.cluster.observe().pool.executors if executor.retiring]
    (staying,) = {older, younger} - {going}
    number = (older, younger).index(going)
    refused = world.cluster.converge(world.targets.after([MoveState("app", 1 - number, going)])).actions
    assert (MoveState("app", 1 - number, going), Outcome.REFUSED) in {(one.action, one.outcome) for one in refused}
    world.turn(MoveState("app", number, staying))
    seen = world.until(lambda seen: seen[-1].pool.registered == 1, "one executor")
    seen = world.until(lambda seen: places_of(seen[-1]) == (staying, staying), "all state on the executor that stays")
    assert seen[-1].pool.executors[0].id == staying


def test_admission_bounds_the_batches(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    assert [answer.outcome for answer in world.turn(SetAdmission("app", 20)).actions] == [Outcome.DONE]
    assert world.converge().actions == ()
    assert world.cluster.observe().applications[0].admission_rows == 20
    seen = world.until(lambda seen: batches_of(seen) and batches_of(seen)[-1].rows == 20, "a batch of 20 rows")
    assert batches_of(seen)[-1].backlog_rows > 0


def test_what_cannot_be_done_is_refused_every_time_and_changes_nothing(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    before = world.cluster.observe()
    here = before.pool.executors[0].id
    asked = [
        SetAdmission("nobody", 20),
        SetParallelism("nobody", "lookup", 2),
        SetShare("nobody", 0.5),
        MoveState("nobody", 0, here),
        MoveState("app", 0, "gone"),
        MoveState("app", 7, here),
    ]
    for receipt in (world.turn(*asked), world.converge(), world.converge()):
        assert [answer.action for answer in receipt.actions] == asked
        assert {answer.outcome for answer in receipt.actions} == {Outcome.REFUSED}
        assert all(answer.note for answer in receipt.actions)
    after = world.cluster.observe()
    assert after.pool.requested == before.pool.requested
    assert knobs_of(after) == knobs_of(before)


def test_a_refusal_keeps_nothing_else_from_being_done(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    receipt = world.turn(SetAdmission("nobody", 20), SetAdmission("app", 30))
    assert {answer.action.application: answer.outcome for answer in receipt.actions} == {
        "nobody": Outcome.REFUSED,
        "app": Outcome.DONE,
    }
    assert world.cluster.observe().applications[0].admission_rows == 30


def test_observing_does_not_act(world: World) -> None:
    world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")
    before = world.cluster.observe()
    for _ in range(5):
        after = world.cluster.observe()
        assert after.pool.requested == before.pool.requested
        assert knobs_of(after) == knobs_of(before)


def test_whatever_was_turned_is_turned_back(world: World) -> None:
    before = world.until(lambda seen: any(b.rows for b in batches_of(seen)), "a batch")[-1]
    world.turn(ScaleExecutors(2), SetAdmission("app", 20))
    world.until(lambda seen: seen[-1].pool.registered == 2, "two executors")
    world.targets = Targets()
    world.cluster.release()
    seen = world.until(lambda seen: knobs_of(seen[-1]) == knobs_of(before), "the limits from before")
    assert seen[-1].pool.registered == 2, "executors stay: the job may need them"


def ran_on(seen: list[Observation], since_s: float) -> list[tuple[str, ...]]:
    """Where the state of each batch was that began since then."""
    return [batch.operators[-1].executors for batch in batches_of(seen) if batch.rows and batch.started_s > since_s]


def has_state(seen: list[Observation]) -> bool:
    return bool(seen[-1].applications and places_of(seen[-1]) and all(places_of(seen[-1])))


def places_of(seen: Observation) -> tuple[str, ...]:
    return seen.applications[0].state_places


def knobs_of(seen: Observation) -> list[tuple[str, int | None, float]]:
    return [(each.name, each.admission_rows, each.interval_s) for each in seen.applications]
