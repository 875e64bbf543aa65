"""The rollout: worked examples, what must hold for any query, and the simulator as a witness."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidegate.domain.cost import BatchCost
from tidegate.model import batchwalk
from tidegate.model.bulkresponse import bulk_response
from tidegate.model.rollout import Candidate, Outlook, Query, rollout
from tidegate.model.slotpath import ExecutorStart, ramp
from tidegate.model.variability import overrun_s
from tidegate_lab.experiments.qos_queue import Queue

STEPS = 60
EXACT = Query(batch_s=0.0, row_s=0.01, overhead_s=0.5, interval_s=5.0, objective_s=9.0, cv_service=0.0, cv_arrival=0.0)


def steady(rate: float, steps: int = STEPS) -> NDArray[np.float64]:
    return np.full(steps, float(rate))


def fixed(slots: float, steps: int = STEPS, **changes: object) -> Candidate:
    return replace(Candidate(np.full(steps, float(slots))), **changes)  # type: ignore[arg-type]


def one(query: Query, rate: float, candidate: Candidate) -> Outlook:
    return rollout(query, steady(rate), [candidate], float(STEPS), 1.0)


# worked examples


def test_a_query_in_step_with_its_trigger_has_the_bulk_response() -> None:
    seen = one(replace(EXACT, trigger_in_s=5.0), 100, fixed(2))
    expected = bulk_response(100, BatchCost(0.0, 0.01, 0.5), slots=2, interval_s=5.0)
    assert seen.mean_s[0, 0] == pytest.approx(expected.mean_s, rel=0.01)
    assert seen.p99_s[0, 0] == pytest.approx(expected.quantile_s(0.99), rel=0.01)
    assert seen.late_share[0, 0] == pytest.approx(0.0, abs=1e-6)


def test_batches_that_overrun_approach_their_steady_length() -> None:
    query = replace(EXACT, interval_s=1.0)
    seen = rollout(query, steady(160, 300), [fixed(2, 300)], 300.0, 1.0)
    expected = bulk_response(160, BatchCost(0.0, 0.01, 0.5), slots=2, interval_s=1.0)
    assert seen.p50_s[0, 0] == pytest.approx(expected.quantile_s(0.5), rel=0.05)


def test_the_share_over_the_objective_is_that_of_the_oldest_rows_of_each_batch() -> None:
    seen = one(replace(EXACT, trigger_in_s=5.0, objective_s=7.0), 100, fixed(2))
    assert seen.late_share[0, 0] == pytest.approx(0.2, abs=0.01)  # T = 3: rows that wait more than 4 of 5 s


def test_rows_that_wait_are_as_old_as_they_are() -> None:
    query = replace(
        EXACT, waiting_ages_s=np.array([30.0, 20.0, 0.0]), waiting_rows=np.array([100.0, 200.0]), interval_s=1.0
    )
    seen = one(replace(query, objective_s=20.0), 0.0, fixed(3))
    # one batch at once: T = 0.5 + 300 · 0.01/3 = 1.5; late are those that came more than 18.5 s ago: 100 and 15
    assert seen.rows[0, 0] == pytest.approx(300)
    assert seen.late_rows[0, 0] == pytest.approx(115, rel=0.01)
    assert seen.backlog_end_rows[0, 0] == pytest.approx(0.0, abs=1e-6)


def test_the_batch_under_way_commits_first() -> None:
    query = replace(
        EXACT,
        waiting_ages_s=np.array([4.0, 0.0]),
        waiting_rows=np.array([400.0]),
        batch_left_s=6.0,
        batch_rows=400.0,
        objective_s=100.0,
    )
    seen = one(query, 0.0, fixed(2))
    assert seen.mean_s[0, 0] == pytest.approx(8.0, rel=0.01)  # aged 2 s on the average, and 6 s more


def test_what_admission_leaves_waiting_keeps_ageing() -> None:
    query = replace(EXACT, interval_s=1.0, objective_s=10.0)
    free, limited = (one(query, 100, fixed(4, admission_rows=rows)) for rows in (None, 50.0))
    assert limited.p99_s[0, 0] > free.p99_s[0, 0] + 20
    assert limited.backlog_end_rows[0, 0] == pytest.approx(60 * 100 / 2, rel=0.1)
    assert limited.oldest_end_s[0, 0] == pytest.approx(30.0, rel=0.1)


def test_a_pause_delays_the_rows_that_come_in_it() -> None:
    query = replace(EXACT, interval_s=1.0, objective_s=6.0)
    without, paused = (one(query, 50, fixed(4, pause_s=pause_s)) for pause_s in (0.0, 12.0))
    assert without.late_share[0, 0] == pytest.approx(0.0, abs=1e-6)
    # the first batch starts at 12 s and takes 2 s: those that came before 8 s are late
    assert paused.late_rows[0, 0] == pytest.approx(8 * 50, rel=0.05)


def test_new_executors_help_when_they_have_started() -> None:
    query = replace(EXACT, interval_s=1.0, objective_s=8.0)
    slow, quick = (ramp(2, 6, STEPS, 1.0, start=ExecutorStart(startup_s, warmup_s=0.0)) for startup_s in (30.0, 2.0))
    seen = rollout(query, steady(220), [Candidate(path.usable, held=path.held) for path in (slow, quick)], 60.0, 1.0)
    assert seen.late_share[0, 0] > seen.late_share[1, 0] + 0.1
    assert seen.slot_seconds[:, 0].tolist() == [360.0, 360.0]


def test_a_last_wave_that_is_not_full_costs_as_much_as_a_full_one() -> None:
    query = replace(EXACT, tasks=(8,), work_share=(1.0,), trigger_in_s=5.0)
    four, five, eight = rollout(query, steady(200), [fixed(4), fixed(5), fixed(8)], 60.0, 1.0).mean_s[:, 0]
    assert four == pytest.approx(five)
    assert eight == pytest.approx(four - 200 * 5 * 0.01 / 8, rel=0.01)


def test_a_busy_driver_stretches_the_overhead() -> None:
    alone, shared = (one(replace(EXACT, trigger_in_s=5.0, driver_load=load), 100, fixed(2)) for load in (0.0, 0.5))
    assert shared.mean_s[0, 0] == pytest.approx(alone.mean_s[0, 0] + 0.5, rel=0.01)
    assert shared.driver_busy[0, 0] == pytest.approx(0.5 + 0.5 / 5, abs=0.02)


def test_the_residual_stretches_the_whole_batch() -> None:
    usual, slower = (one(replace(EXACT, trigger_in_s=5.0, residual=factor), 100, fixed(2)) for factor in (1.0, 1.2))
    assert slower.mean_s[0, 0] == pytest.approx(usual.mean_s[0, 0] + 0.2 * 3.0, rel=0.01)


def test_without_slots_everything_is_late_and_nothing_breaks() -> None:
    seen = one(EXACT, 100, fixed(0))
    assert seen.late_share[0, 0] > 0.99
    assert np.isfinite(seen.p99_s[0, 0])


def test_without_rows_nothing_is_late() -> None:
    seen = one(EXACT, 0.0, fixed(2))
    assert (seen.rows[0, 0], seen.late_share[0, 0], seen.p99_s[0, 0]) == (0.0, 0.0, 0.0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="60 steps"):
        rollout(EXACT, steady(1, 59), [fixed(1)], 60.0, 1.0)
    with pytest.raises(ValueError, match="at least one candidate"):
        rollout(EXACT, steady(1), [], 60.0, 1.0)
    with pytest.raises(ValueError, match="one edge more"):
        replace(EXACT, waiting_rows=np.ones(3), waiting_ages_s=np.ones(3))


def test_the_wait_for_the_batch_before_is_allen_cunneens() -> None:
    queue = Queue(rows_per_s=1.0, service_s=0.6, servers=1, service_cv=0.1, arrival_cv=0.0)
    waits_s = overrun_s(np.array([0.6]), np.array([0.06]), np.array([1.0]))
    assert waits_s[0] == pytest.approx(queue.waiting_s)


# what must hold for any query


@st.composite
def queries(draw: st.DrawFn) -> tuple[Query, float, NDArray[np.float64]]:
    """A query, slots, and a path that loads them to between 20 and 150 %."""
    tasks: tuple[int, ...] = draw(st.sampled_from([(), (8,)]))
    query = Query(
        batch_s=draw(st.floats(0, 1)),
        row_s=10 ** draw(st.floats(-4, -1)),
        overhead_s=draw(st.floats(0.1, 2)),
        interval_s=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])),
        objective_s=draw(st.floats(1, 30)),
        trigger_in_s=draw(st.floats(0, 0.5)),
        batch_left_s=draw(st.floats(0, 5)),
        cv_service=draw(st.floats(0, 0.3)),
        tasks=tasks,
        work_share=(1.0,) * len(tasks),
    )
    slots = float(draw(st.integers(1, 12)))
    wave = 1 + draw(st.floats(0, 0.8)) * np.sin(np.arange(STEPS) / draw(st.floats(2, 30)))
    return query, slots, draw(st.floats(0.2, 1.5)) * slots / query.row_s * wave


limits = st.one_of(st.none(), st.floats(0.3, 3.0))


@given(queries(), limits)
@settings(max_examples=60, deadline=None)
def test_more_slots_are_never_worse_and_more_load_is_never_better(
    drawn: tuple[Query, float, NDArray[np.float64]], limit: float | None
) -> None:
    query, slots, path = drawn
    rows = None if limit is None else limit * float(path.mean()) * max(query.interval_s, 1.0)
    candidates = [fixed(slots * more, admission_rows=rows) for more in (0.5, 1.0, 1.1, 1.5, 2.0, 4.0)]
    seen = rollout(query, np.array([0.8, 1.0, 1.05, 1.5])[:, None] * path, candidates, float(STEPS), 1.0)
    for measure in (seen.late_share, seen.mean_s, seen.p99_s):
        assert np.all(np.diff(measure, axis=0) <= 1e-9)
        assert np.all(np.diff(measure, axis=1) >= -1e-9)
    assert np.all((seen.late_share >= 0) & (seen.late_share <= 1 + 1e-9))
    assert np.all(np.isfinite(seen.p99_s))


@given(queries())
@settings(max_examples=60, deadline=None)
def test_what_one_call_guarantees_nearly_holds_between_calls(
    drawn: tuple[Query, float, NDArray[np.float64]],
) -> None:
    """The physics themselves are as good as monotone: the guarantee repairs small effects of timing only."""
    query, slots, path = drawn
    fewer, more = (
        rollout(query, path, [fixed(count)], float(STEPS), 1.0).late_share[0, 0] for count in (slots, 1.2 * slots)
    )
    assert more <= fewer + 0.05


@pytest.mark.slow
@given(queries())
@settings(max_examples=40, deadline=None)
def test_the_share_over_the_objective_has_no_cliff(drawn: tuple[Query, float, NDArray[np.float64]]) -> None:
    query, slots, path = drawn
    query = replace(query, cv_service=max(query.cv_service, 0.1))
    shares = [
        rollout(replace(query, objective_s=objective_s), path, [fixed(slots)], float(STEPS), 1.0).late_share[0, 0]
        for objective_s in query.objective_s * np.linspace(0.9, 1.1, 21)
    ]
    steps = [before - after for before, after in pairwise(shares)]
    assert all(step >= -1e-9 for step in steps)
    assert max(steps) < 0.2


@given(queries(), limits)
@settings(max_examples=40, deadline=None)
def test_several_batches_at_once_are_as_good_as_one_by_one(
    drawn: tuple[Query, float, NDArray[np.float64]], limit: float | None
) -> None:
    query, slots, path = drawn
    rows = None if limit is None else limit * float(path.mean()) * max(query.interval_s, 1.0)
    candidate = fixed(slots, admission_rows=rows)
    quick = rollout(query, path, [candidate], float(STEPS), 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batchwalk, "_LEAST_JUMP", np.inf)
        exact, stricter, looser = (
            rollout(replace(query, objective_s=factor * query.objective_s), path, [candidate], float(STEPS), 1.0)
            for factor in (1.0, 0.85, 1.15)
        )
    assert quick.p99_s[0, 0] == pytest.approx(exact.p99_s[0, 0], rel=0.2, abs=0.05)
    assert looser.late_share[0, 0] - 0.05 <= quick.late_share[0, 0] <= stricter.late_share[0, 0] + 0.05
    assert quick.rows[0, 0] == pytest.approx(exact.rows[0, 0])


@given(queries())
@settings(max_examples=40, deadline=None)
def test_columns_do_not_touch_each_other(drawn: tuple[Query, float, NDArray[np.float64]]) -> None:
    query, slots, path = drawn
    other = fixed(3 * slots, admission_rows=7.0, pause_s=2.0)
    alone = rollout(query, path, [fixed(slots)], float(STEPS), 1.0)
    beside = rollout(query, np.array([path, 3 * path]), [fixed(slots), other], float(STEPS), 1.0)
    assert beside.late_share[0, 0] == pytest.approx(alone.late_share[0, 0], abs=0.05)
    assert beside.mean_s[0, 0] == pytest.approx(alone.mean_s[0, 0], rel=0.03, abs=1e-3)
