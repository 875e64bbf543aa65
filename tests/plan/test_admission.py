"""Admission without a JVM: the bound of known and unknown queries, when it opens, and decisions inside of a batch."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.core.worlds import application, batch, pool
from tidegate.control.controller import Controller
from tidegate.domain import (
    ApplicationSample,
    ArrivalSample,
    Decision,
    Observation,
    PartitionLag,
    RunningBatch,
    ScaleExecutors,
    SetAdmission,
)
from tidegate.domain.policy import Policy
from tidegate.plan.admission import FIRST_ROWS

POLICY = Policy.model_validate({"objective": {"latency_s": 10}, "executors": {"min": 1, "max": 4}})


def limits(decision: Decision) -> list[int | None]:
    return [action.rows_per_trigger for action in decision.actions if isinstance(action, SetAdmission)]


def stepped(controller: Controller, time_s: float, sample: ApplicationSample) -> Decision:
    return controller.step(Observation(time_s, (sample,), pool(1)))


def known(controller: Controller, limit: int | None = 2000) -> float:
    """Ten batches of 500 rows at 5 ms: enough to know the query."""
    for number in range(10):
        sample = application((batch(number, 1000.0 + number, 500),), gated=True, admission_rows=limit)
        stepped(controller, 1000.6 + number, sample)
    return 1010.0


def test_an_unknown_query_starts_small_and_grows_with_batches_done_in_time() -> None:
    controller = Controller(POLICY)
    assert limits(stepped(controller, 1000.0, application((), gated=True))) == [FIRST_ROWS]
    quick = application((batch(0, 1000.0, FIRST_ROWS, duration_s=1.0),), gated=True, admission_rows=FIRST_ROWS)
    assert limits(stepped(controller, 1001.0, quick)) == [4 * FIRST_ROWS]
    slow = application((batch(1, 1001.0, FIRST_ROWS, duration_s=9.0),), gated=True, admission_rows=FIRST_ROWS)
    assert limits(stepped(Controller(POLICY), 1010.0, slow)) == []
    small = application((batch(1, 1001.0, 50, duration_s=0.1),), gated=True, admission_rows=FIRST_ROWS)
    assert limits(stepped(Controller(POLICY), 1002.0, small)) == [], "the limit did not bind"


def test_a_known_query_gets_the_rows_that_its_slots_finish_in_a_part_of_the_objective() -> None:
    controller = Controller(POLICY)
    now_s = known(controller, limit=50_000)
    sample = application((batch(10, now_s, 500),), gated=True, admission_rows=50_000)
    (limit,) = limits(stepped(controller, now_s + 0.6, sample))
    assert limit is not None
    assert 1200 < limit < 1800, "4 slots, 5 ms a row, 2 s: longer batches would not save enough of 0.1 s each"


def test_batches_are_longer_the_longer_it_takes_to_clear_the_backlog() -> None:
    """A batch costs 0.5 s by itself and 5 ms a row on 4 slots: 0.5 s of waiting is worth 2 s, 40 s are worth 4.5 s."""
    policy = POLICY.model_copy(update={"objective": POLICY.objective.model_copy(update={"latency_s": 60.0})})

    def limit(backlog_rows: int) -> int:
        controller, found = Controller(policy), list[int | None]()
        for number in range(10):
            played = batch(number, 1000.0 + number, 200, duration_s=0.75, overhead_s=0.5, backlog_rows=backlog_rows)
            sample = application((played,), gated=True, admission_rows=100_000)
            found += limits(stepped(controller, 1000.9 + number, sample))
        assert found[-1] is not None
        return found[-1]

    assert 900 < limit(400) < 1500
    assert 2200 < limit(32_000) < 3600


def test_what_was_done_in_time_is_allowed_again_and_more_where_it_was_done_quickly() -> None:
    """Small batches look dear, for most of their cost is fixed: the limit must not stay there when rows come."""
    controller, limit = Controller(POLICY), 10_000
    now_s, number, texts = 1000.0, 0, list[str]()

    def play(rows: int) -> None:
        nonlocal now_s, number, limit
        seconds = 0.8 + 0.002 * rows  # a row is worth 2 ms, a batch 0.8 s
        played = batch(number, now_s, rows, duration_s=seconds, busy_s=4 * seconds, overhead_s=0.0)
        decision = stepped(controller, now_s + seconds, application((played,), gated=True, admission_rows=limit))
        now_s, number = now_s + max(1.0, seconds), number + 1
        limit = next((found for found in limits(decision) if found is not None), limit)
        texts.extend(reason.text for reason in decision.reasons if reason.code == "bound-batch")

    for _ in range(12):
        play(40)
    assert limit < 400, "by what is seen, a row takes 22 ms"
    sizes = []
    for _ in range(8):
        sizes.append(limit)
        play(limit)
    assert sizes[-1] > 1200
    assert max(0.8 + 0.002 * size for size in sizes) < 6.0, "no batch is much longer than 40 % of the objective"
    judged = [
        re.search(r"finish (\d+) rows .* earlier batches, (\d+) fit: a batch may read no more", text) for text in texts
    ]
    assert any(found and int(found[1]) < int(found[2]) for found in judged), "the reason says why it allows more"


def test_the_gate_opens_when_throttling_drops_rows_behind_the_watermark() -> None:
    controller = Controller(POLICY)
    now_s = known(controller)
    harmed = application((batch(10, now_s, 2000, dropped_rows=40),), gated=True, admission_rows=2000)
    decision = stepped(controller, now_s + 0.6, harmed)
    assert limits(decision) == [None]
    free = application((batch(11, now_s + 1, 900, dropped_rows=0),), gated=True)
    assert limits(stepped(controller, now_s + 1.6, free)) == [], "it stays open for a while"


def test_rows_that_are_dropped_anyway_do_not_open_the_gate() -> None:
    controller = Controller(POLICY)
    for number in range(10):
        dropping = application((batch(number, 1000.0 + number, 500, dropped_rows=10),), gated=True, admission_rows=3000)
        stepped(controller, 1000.6 + number, dropping)
    bound = application((batch(10, 1010.0, 3000, dropped_rows=70),), gated=True, admission_rows=3000)
    assert None not in limits(stepped(controller, 1010.6, bound))


def test_the_gate_opens_before_waiting_rows_reach_the_retention_of_the_topic() -> None:
    for age_s, expected in ((400.0, True), (100.0, False)):
        controller = Controller(POLICY)
        now_s = known(controller)
        arrival = ArrivalSample(now_s, 50_000, waiting_rows=5000, oldest_s=now_s - age_s, retention_s=600.0)
        sample = application((batch(10, now_s, 2000),), gated=True, admission_rows=2600, arrival=arrival)
        assert (None in limits(stepped(controller, now_s + 0.6, sample))) == expected


def test_of_topics_that_are_kept_for_different_times_the_row_that_is_deleted_first_counts() -> None:
    for age_s, expected in ((400.0, True), (100.0, False)):
        controller = Controller(POLICY)
        now_s = known(controller)
        waits = ArrivalSample(now_s, 50_000, 5000, oldest_s=now_s - 900.0, retention_s=600.0, expiring_s=now_s - age_s)
        sample = application((batch(10, now_s, 2000),), gated=True, admission_rows=2600, arrival=waits)
        decision = stepped(controller, now_s + 0.6, sample)
        assert (None in limits(decision)) == expected
        assert any("a row has waited 401 s" in str(reason) for reason in decision.reasons) == expected


def test_an_age_without_counted_rows_changes_nothing_but_the_guard() -> None:
    """Of a query that reads from Kafka and from files, only the age of the rows in Kafka is known."""
    one, two = Controller(POLICY), Controller(POLICY)
    for number in range(20):
        now_s = 1000.6 + number
        sample = application((batch(number, 1000.0 + number, 500 + 50 * number),), gated=True, admission_rows=2000)
        aged = replace(sample, arrival=ArrivalSample(now_s, None, oldest_s=now_s - 0.5, retention_s=600.0))
        assert limits(stepped(one, now_s, sample)) == limits(stepped(two, now_s, aged))
    old = replace(aged, arrival=ArrivalSample(1021.0, None, oldest_s=700.0, retention_s=600.0))
    assert limits(stepped(two, 1021.0, old)) == [None]


def test_the_gate_opens_for_a_query_that_is_not_known_yet() -> None:
    """After a long outage the first batches are the ones that must not be small."""
    arrival = ArrivalSample(1000.0, 50_000, waiting_rows=5000, oldest_s=600.0, retention_s=600.0)
    sample = application((), gated=True, admission_rows=FIRST_ROWS, arrival=arrival)
    assert limits(stepped(Controller(POLICY), 1000.0, sample)) == [None]


def long_batch(now_s: float, started_s: float) -> ApplicationSample:
    """A first batch of 40 000 rows at 5 ms, a quarter done after 30 s on four slots."""
    running = RunningBatch(
        started_s, 40_000, tasks_done=4, tasks_left=12, tasks_running=4, busy_s=50.0, held_s=50.0, replayed=True
    )
    arrived = 100_000 + round(200 * (now_s - started_s))
    arrival = ArrivalSample(now_s, arrived, waiting_rows=20_000, oldest_s=started_s - 60.0)
    return application((), gated=True, running_batch=running, arrival=arrival, admission_rows=FIRST_ROWS)


def test_growth_is_decided_in_the_middle_of_the_first_batch() -> None:
    controller = Controller(POLICY)
    decisions = [stepped(controller, 1000.0 + second, long_batch(1000.0 + second, 995.0)) for second in range(60)]
    grown = [action for one in decisions for action in one.actions if isinstance(action, ScaleExecutors)]
    assert grown
    text = next(str(reason) for one in decisions for reason in one.reasons if "tasks done" in str(reason))
    assert "a batch of 40000 rows (planned before the restart, so Spark repeats it whole)" in text
    assert "4 of 16 tasks done" in text


def test_a_long_batch_is_not_stale_but_silence_is() -> None:
    controller = Controller(POLICY)
    now_s = known(controller) + 300.0
    running = RunningBatch(now_s - 299.0, 500, tasks_done=1, tasks_left=3, tasks_running=3, busy_s=5.0, held_s=15.0)
    silent = application((), last_progress_s=1009.5, gated=True, admission_rows=2000)
    seen = replace(silent, running_batch=running)
    codes = [
        {reason.code for reason in stepped(Controller(POLICY, controller.knowledge), now_s, sample).reasons}
        for sample in (seen, silent)
    ]
    assert "metrics-stale" not in codes[0]
    assert "metrics-stale" in codes[1]


def test_a_hot_partition_is_named() -> None:
    controller = Controller(POLICY)
    now_s = known(controller)
    arrival = ArrivalSample(now_s, 90_000, waiting_rows=9000, oldest_s=now_s - 60.0)
    lags = (PartitionLag("orders-3", 8000), PartitionLag("orders-1", 1000))
    sample = application((batch(10, now_s, 500),), gated=True, arrival=arrival, lags=lags, partitions=8)
    (advice,) = [one for one in stepped(controller, now_s + 0.6, sample).advice if one.reason.code == "hot-partition"]
    assert "partition orders-3 holds 8000 of the 9000 rows that wait in 8 partitions" in advice.reason.text
