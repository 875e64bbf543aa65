"""The simulated cluster: micro-batches as Spark runs them, and the contract of the port."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.adapters.sim.application import SimApplication, SimOperator
from tidegate.adapters.sim.cluster import SimCluster
from tidegate.adapters.sim.faults import ExecutorLost, MetricsMissing, MetricsStale, SlowStart
from tidegate.domain import (
    Action,
    BatchSample,
    InvalidInput,
    Outcome,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    Targets,
)
from tidegate.load import Burst, Constant, Timeline


def words(**changes: Any) -> SimApplication:
    settings_: dict[str, Any] = {
        "load": 100,
        "interval_s": 1.0,
        "overhead_s": 0.2,
        "cold_s": 0.0,
        "operators": (SimOperator("split", 0.004, parallelism=8), SimOperator("count", 0.002, parallelism=8)),
    }
    return SimApplication("words", **(settings_ | changes))


def exact(*applications: SimApplication, executors: int = 1, slots: int = 2, **changes: Any) -> SimCluster:
    return SimCluster(applications, executors, slots, noise=0.0, **changes)


def batches(cluster: SimCluster, until_s: float, every_s: float = 1.0) -> list[BatchSample]:
    seen: list[BatchSample] = []
    for moment in np.arange(cluster.now_s + every_s, until_s + 1e-6, every_s):
        cluster.advance_to(float(moment))
        seen.extend(cluster.observe().applications[0].batches)
    return seen


def test_a_batch_takes_overhead_plus_work_over_slots() -> None:
    batch = batches(exact(words()), 10)[3]
    assert batch.rows == 100
    assert batch.duration_s == pytest.approx(0.2 + 100 * 0.006 / 2)
    assert batch.overhead_s == pytest.approx(0.2)
    assert batch.busy_s == pytest.approx(100 * 0.006)
    assert [(operator.name, operator.rows_in) for operator in batch.operators] == [("split", 100), ("count", 100)]
    assert batch.operators[0].execute_latency_s == pytest.approx(100 * 0.004 / 2)


def test_an_operator_uses_at_most_its_parallelism() -> None:
    narrow = words(operators=(SimOperator("split", 0.004, parallelism=1),))
    assert batches(exact(narrow, slots=8), 5)[1].duration_s == pytest.approx(0.2 + 100 * 0.004)


def test_selectivity_feeds_the_next_stage() -> None:
    wide = words(operators=(SimOperator("split", 0.001, selectivity=8.0), SimOperator("count", 0.0005)))
    batch = batches(exact(wide), 5)[1]
    assert [(operator.rows_in, operator.rows_out) for operator in batch.operators] == [(100, 800), (800, 800)]
    assert batch.duration_s == pytest.approx(0.2 + (100 * 0.001 + 800 * 0.0005) / 2)


def test_stages_may_read_several_before_them() -> None:
    join = words(
        operators=(
            SimOperator("a", 0.0001),
            SimOperator("b", 0.0001, inputs=("a",), selectivity=2.0),
            SimOperator("c", 0.0001, inputs=("a", "b")),
        )
    )
    assert batches(exact(join), 5)[1].operators[2].rows_in == 300


def test_triggers_lie_on_the_interval_and_an_overrun_batch_is_followed_at_once() -> None:
    heavy = words(load=Burst(base=10, peak=400, start_s=10, duration_s=10))
    seen = batches(exact(heavy), 40)
    assert all(batch.started_s == pytest.approx(round(batch.started_s)) for batch in seen if batch.committed_s < 10)
    overrun = [batch for batch in seen if batch.duration_s > 1]
    assert overrun
    for batch, following in pairwise(seen):
        if batch.duration_s > 1:
            assert following.started_s == pytest.approx(batch.committed_s)


def test_no_rows_no_batch() -> None:
    assert batches(exact(words(load=Burst(base=0, peak=100, start_s=5))), 5) == []


def test_admission_bounds_a_batch_and_leaves_the_rest_as_backlog() -> None:
    cluster = exact(words(admission_rows=30))
    seen = batches(cluster, 5)
    assert {batch.rows for batch in seen} == {30}
    assert [batch.backlog_rows for batch in seen[:3]] == [70, 140, 210]
    receipt = cluster.converge(Targets().after([SetAdmission("words", None)]))
    assert receipt.actions[0].outcome is Outcome.DONE
    assert batches(cluster, 7)[0].rows == 380  # 500 came, 120 were let in
    assert cluster.observe().applications[0].admission_rows is None


def test_latency_runs_from_each_rows_arrival_to_the_commit() -> None:
    timeline = Timeline(Constant(rate=100))
    for batch in batches(exact(words()), 10):
        first = batch.batch_id * 100
        ages = batch.committed_s - timeline.arrivals_s(first, first + batch.rows)
        assert batch.latency is not None
        assert batch.latency.max_s == pytest.approx(ages.max())
        assert batch.latency.p99_s == pytest.approx(np.quantile(ages, 0.99, method="inverted_cdf"))
        assert batch.latency.p50_s == pytest.approx(np.quantile(ages, 0.5, method="inverted_cdf"))


def test_applications_share_the_slots_in_proportion_to_what_they_ask() -> None:
    one = SimApplication("one", 100, 1.0, 0.0, (SimOperator("work", 0.004, parallelism=3),), cold_s=0)
    two = SimApplication("two", 100, 1.0, 0.0, (SimOperator("work", 0.004, parallelism=1),), cold_s=0)
    cluster = exact(one, two, slots=2)
    cluster.advance_to(3.0)
    first, second = cluster.observe().applications
    assert first.batches[0].duration_s == pytest.approx(0.4 / 1.5, abs=1e-4)  # 3 of 4 parts of 2 slots
    # `two` has half a slot until `one` is done, and a whole one afterwards
    assert second.batches[0].duration_s == pytest.approx(0.4 / 1.5 + (0.4 - 0.5 * 0.4 / 1.5) / 1, abs=1e-4)


def test_executors_come_after_their_start_up_and_are_slow_at_first() -> None:
    cluster = exact(words(load=10), startup_s=5.0, warmup_s=10.0, warmup_speed=0.5)
    cluster.advance_to(10.1)
    assert cluster.converge(Targets(executors=2)).actions[0].outcome is Outcome.UNDER_WAY
    assert cluster.observe().pool.requested == 2
    slots, durations = {}, {}
    for moment in range(11, 41):
        cluster.advance_to(float(moment))
        seen = cluster.observe()
        slots[moment] = seen.pool.slots
        durations[moment] = [batch.duration_s for batch in seen.applications[0].batches]
    assert slots[15] == 2
    assert slots[16] == 4
    assert cluster.converge(Targets(executors=2)).actions == ()
    assert durations[14] == [pytest.approx(0.2 + 0.06 / 2)]
    assert durations[20] == [pytest.approx(0.2 + 0.06 / 3)]  # four slots at a mean speed of 3/4
    assert durations[40] == [pytest.approx(0.2 + 0.06 / 4)]


def test_an_executor_retires_when_the_running_batch_is_done() -> None:
    cluster = exact(words(load=100), executors=2)
    cluster.advance_to(5.3)  # inside the batch of the fifth second
    assert cluster.gates[0].in_batch
    cluster.converge(Targets(executors=1))
    assert cluster.observe().pool.registered == 2
    cluster.advance_to(5.9)
    seen = cluster.observe()
    assert seen.pool.registered == 1
    assert seen.applications[0].batches[-1].duration_s == pytest.approx(0.2 + 0.6 / 4)


def test_asking_again_before_it_goes_keeps_the_executor() -> None:
    cluster = exact(words(load=100), executors=2)
    cluster.advance_to(5.3)
    cluster.converge(Targets(executors=1))
    cluster.converge(Targets(executors=2))
    cluster.advance_to(8.0)
    assert [executor.id for executor in cluster.observe().pool.executors] == ["0", "1"]


def test_applying_twice_is_applying_once() -> None:
    targets = Targets().after([ScaleExecutors(3), SetAdmission("words", 50), SetParallelism("words", "split", 4)])
    once, twice = exact(words()), exact(words())
    for cluster, times in ((once, 1), (twice, 4)):
        cluster.advance_to(4.2)
        for _ in range(times):
            cluster.converge(targets)
        cluster.advance_to(30.0)
    assert once.observe() == twice.observe()
    assert once.reconfigurations == twice.reconfigurations == 2


def test_batches_are_reported_once_and_in_order() -> None:
    seen = [batch.batch_id for batch in batches(exact(words()), 30, every_s=0.37)]
    assert seen == list(range(len(seen)))
    assert len(seen) >= 28


@pytest.mark.parametrize("action", [SetParallelism("words", "split", 1), SetBatchInterval("words", 2.0)])
def test_a_restart_pauses_the_query_and_takes_the_new_setting(action: SetParallelism | SetBatchInterval) -> None:
    cluster = exact(words(restart_s=4.0, cold_s=1.0))
    before = batches(cluster, 5)
    receipt = cluster.converge(Targets().after([action])).actions[0]
    assert (receipt.outcome, receipt.pause_s) == (Outcome.UNDER_WAY, 4.0)
    assert cluster.converge(Targets().after([action])).actions[0].outcome is Outcome.UNDER_WAY
    after = batches(cluster, 30)
    assert cluster.converge(Targets().after([action])).actions == ()
    assert cluster.gates[0].restarts == 1
    assert [batch.batch_id for batch in after[:2]] == [len(before), len(before) + 1]
    resumed = next(batch for batch in after if batch.warming)
    stopped_s = max(batch.committed_s for batch in [*before, *after] if batch.committed_s <= resumed.started_s)
    assert resumed.started_s - stopped_s >= 4.0
    assert sum(batch.rows for batch in [*before, *after]) == pytest.approx(100 * 29, abs=200)
    if isinstance(action, SetParallelism):
        assert after[-1].operators[0].parallelism == 1
        assert after[-1].duration_s == pytest.approx(0.2 + 100 * 0.004 / 1 + 100 * 0.002 / 2)
    else:
        assert cluster.observe().applications[0].interval_s == 2.0
        assert {batch.rows for batch in after[-3:]} == {200}


@pytest.mark.parametrize(
    ("action", "note"),
    [
        (SetAdmission("ghost", 5), "no application named ghost"),
        (SetParallelism("words", "ghost", 5), "words has no operator ghost"),
        (ScaleExecutors(9), "the cluster has room for 4 executors"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(action: Action, note: str) -> None:
    cluster = exact(words(), max_executors=4)
    receipt = cluster.converge(Targets().after([action])).actions[0]
    assert (receipt.outcome, receipt.note) == (Outcome.REFUSED, note)
    assert cluster.observe().pool.requested == 1


def test_missing_metrics_leave_the_rows_and_nothing_else() -> None:
    seen = batches(exact(words(), faults=[MetricsMissing(5.0, 10.0)]), 15)
    bare = [batch for batch in seen if batch.busy_s is None]
    assert [batch.batch_id for batch in bare] == [3, 4, 5, 6, 7]  # told at 5, 6, 7, 8 and 9 s
    for batch in bare:
        assert batch.rows == 100
        assert (batch.overhead_s, batch.backlog_rows, batch.latency, batch.operators) == (None, None, None, ())


def test_progress_is_heard_at_commits_and_idle_triggers_only() -> None:
    busy = exact(words(load=1000))  # three seconds for a batch on two slots; the trigger at 0 finds no rows
    busy.advance_to(3.0)
    assert busy.observe().applications[0].last_progress_s == 0.0
    busy.advance_to(4.5)
    assert busy.observe().applications[0].last_progress_s == pytest.approx(1.0 + 0.2 + 3.0)
    idle = exact(words(load=Burst(base=0, peak=1, start_s=100)))
    idle.advance_to(7.5)
    assert idle.observe().applications[0].last_progress_s == pytest.approx(7.0)


def test_stale_metrics_arrive_late_and_complete() -> None:
    cluster = exact(words(), faults=[MetricsStale(5.0, 10.0)])
    batches(cluster, 4.9)
    cluster.advance_to(9.9)
    seen = cluster.observe().applications[0]
    assert seen.batches == ()
    assert seen.last_progress_s is not None
    assert seen.last_progress_s <= 5.0
    late = batches(cluster, 12)
    assert [batch.batch_id for batch in late][:5] == list(range(late[0].batch_id, late[0].batch_id + 5))


def test_a_lost_executor_is_replaced_after_a_start_up() -> None:
    cluster = exact(words(), executors=2, faults=[ExecutorLost(10.5)], startup_s=5.0)
    there = {}
    for moment in (10.4, 10.6, 15.4, 15.6):
        cluster.advance_to(moment)
        there[moment] = [executor.id for executor in cluster.observe().pool.executors]
    assert there == {10.4: ["0", "1"], 10.6: ["1"], 15.4: ["1"], 15.6: ["1", "2"]}
    assert cluster.observe().pool.requested == 2


def test_a_lost_executor_makes_the_stage_do_its_share_again() -> None:
    heavy = words(load=Burst(base=0, peak=1000, start_s=0.0, duration_s=1.0), operators=(SimOperator("w", 0.01),))
    cluster = exact(heavy, executors=2, slots=2, faults=[ExecutorLost(2.2)], startup_s=1000)
    batch = batches(cluster, 20)[0]
    # 1 s of 4 slots was done when a half of it was lost: 10 − 4 + 2 slot-seconds are left for 2 slots
    assert batch.duration_s == pytest.approx(0.2 + 1.0 + 8 / 2)
    assert batch.busy_s == pytest.approx(12.0)


def test_a_slow_start_holds_new_executors_back() -> None:
    cluster = exact(words(), faults=[SlowStart(0.0, 10.0, startup_s=30.0)], startup_s=5.0)
    cluster.advance_to(1.0)
    cluster.converge(Targets(executors=2))
    cluster.advance_to(30.0)
    assert cluster.observe().pool.registered == 1
    cluster.advance_to(31.5)
    assert cluster.observe().pool.registered == 2


def test_no_executors_no_progress_and_no_loss() -> None:
    cluster = exact(words(), executors=0, startup_s=3.0, warmup_s=0.0)
    assert batches(cluster, 5) == []
    cluster.converge(Targets(executors=2))
    assert sum(batch.rows for batch in batches(cluster, 30)) == pytest.approx(2900, abs=100)


def test_the_clock_moves_the_plant_and_ends_the_story() -> None:
    cluster = exact(words())
    cluster.clock.until_s = 10.0
    assert cluster.clock.sleep_until(4.0)
    assert cluster.clock.now_s() == 4.0
    assert not cluster.clock.sleep_until(11.0)
    assert cluster.clock.now_s() == 10.0


def test_late_rows_are_counted_by_arrival_and_the_unfinished_at_their_age() -> None:
    cluster = exact(words(load=Burst(base=0, peak=100, start_s=0.0, duration_s=10.0)), executors=0)
    cluster.advance_to(12.0)
    assert cluster.violation_rate("words", 5.0) == pytest.approx(0.7)  # came in the first 7 of 10 seconds
    assert exact(words()).violation_rate("words", 5.0) is None


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    rate=st.integers(1, 800),
    admission=st.none() | st.integers(1, 500),
    targets=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    interval_s=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
)
def test_no_row_is_lost_or_doubled_whatever_is_asked(
    seed: int, rate: int, admission: int | None, targets: list[int], interval_s: float
) -> None:
    application = words(load=rate, admission_rows=admission, interval_s=interval_s)
    cluster = SimCluster([application], 1, 2, seed=seed, startup_s=2.0)
    told = 0
    for turn, target in enumerate(targets):
        cluster.converge(Targets(executors=target))
        cluster.advance_to(5.0 * (turn + 1))
        seen = cluster.observe()
        told += sum(batch.rows for batch in seen.applications[0].batches)
        assert seen.pool.registered <= max(4, 1)
    gate = cluster.gates[0]
    ranges = [(commit.first, commit.end) for commit in gate.commits]
    assert all(end == first for (_, end), (first, _) in pairwise(ranges))
    assert told == (ranges[-1][1] if ranges else 0)
    assert told <= gate.admitted <= gate.rows_arrived(cluster.now_s)


def test_the_same_seed_gives_the_same_story_and_another_seed_another() -> None:
    def story(seed: int) -> list[BatchSample]:
        return batches(SimCluster([words()], 1, 2, seed=seed), 20)

    assert story(1) == story(1)
    assert story(1) != story(2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SimOperator("x", -1.0), "cost per row must be at least 0"),
        (lambda: SimOperator("x", float("nan")), "cost per row must be at least 0"),
        (lambda: SimOperator("x", 1.0, parallelism=0), "parallelism must be at least 1"),
        (lambda: SimApplication("a", 10, operators=()), "needs at least one operator"),
        (lambda: SimApplication("a", 10, interval_s=-1.0), "interval must be at least 0"),
        (lambda: SimApplication("a", {"kind": "nonsense"}), "load"),
        (
            lambda: SimApplication("a", 10, operators=(SimOperator("x", 1.0), SimOperator("y", 1.0, inputs=("z",)))),
            "y reads z, which is not listed before it",
        ),
        (lambda: SimCluster([words(), words()]), "application words is listed twice"),
        (lambda: SimCluster([words()], executors=-1), "at least 0 executors"),
        (lambda: SimCluster([words()], slots_per_executor=0), "at least one slot"),
    ],
)
def test_bad_input_is_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()
