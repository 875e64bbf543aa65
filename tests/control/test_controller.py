"""The controller: holds what it must hold, and closes the loop in the simulator."""

from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.worlds import application, batch, pool, simulated, sizes, steady
from tidegate.adapters.sim import ExecutorLost, MetricsMissing, MetricsStale
from tidegate.control import predictions
from tidegate.control.controller import Controller
from tidegate.control.journal import Entry
from tidegate.control.knowledge import Knowledge
from tidegate.domain import Decision, Observation, ScaleExecutors, SetAdmission, Targets
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.policy import Policy
from tidegate.load import Burst, Constant, Poisson, Sinusoid
from tidegate.plan import guards

POLICY = Policy.model_validate({"objective": {"latency_s": 8}, "executors": {"min": 1, "max": 6}})


def final_size(observations: list[Observation], policy: Policy = POLICY) -> int:
    """The largest size that is asked for on the way."""
    controller = Controller(policy)
    targets = [observations[0].pool.requested]
    for observation in observations:
        targets += [
            action.target for action in controller.step(observation).actions if isinstance(action, ScaleExecutors)
        ]
    return max(targets)


def replay(controller: Controller, observation: Observation | None, entry: Entry) -> Decision:
    """A recorded step once more: the same observation, and the same answer of the world."""
    assert observation is not None
    decision = controller.step(observation)
    if entry.receipt is not None:
        controller.learn(decision, entry.receipt)
    return decision


@pytest.mark.slow
def test_a_burst_is_met_and_the_pool_shrinks_again() -> None:
    load = Burst(base=400, peak=1200, start_s=60, duration_s=120)
    cluster, entries = simulated(load, POLICY, until_s=700)
    changes = sizes(entries)
    assert 60 < min(time_s for time_s, _ in changes) < 75, "quick on a burst"
    assert max(target for time_s, target in changes if time_s < 180) >= 2
    shrinks = [(time_s, after) for (_, before), (time_s, after) in pairwise(changes) if after < before]
    assert all(after >= 3 for time_s, after in shrinks if time_s < 180), "executors for the backlog go, no others"
    assert changes[-1][1] == 1
    static, _ = simulated(load, POLICY.model_copy(update={"mode": "off"}), until_s=700)
    late, static_late = (world.violation_rate("app", 8.0) for world in (cluster, static))
    assert late is not None
    assert static_late is not None
    assert late < static_late / 3


@pytest.mark.slow
@pytest.mark.parametrize("rate", [150, 420, 560, 640, 1100, 1900])
def test_no_flapping_on_constant_load_with_noise(rate: float) -> None:
    _, entries = simulated(Poisson(of=Constant(rate=rate), seed=3), POLICY, until_s=900)
    targets = [target for _, target in sizes(entries)]
    turns = [sign for sign, _ in groupby(after > before for before, after in pairwise([1, *targets]))]
    assert turns in ([], [True], [True, False]), f"up for the cold start, perhaps down once, then still: {targets}"
    assert not [time_s for time_s, _ in sizes(entries) if time_s > 450], "settled"


def test_the_same_observations_give_the_same_decisions() -> None:
    _, entries = simulated(Sinusoid(baseline=800, amplitude=500, period_s=200), POLICY, until_s=200)
    again = Controller(POLICY)
    for entry in entries:
        assert entry.observation is not None
        recorded = from_json(Observation, to_json(entry.observation))
        assert replay(again, recorded, entry) == entry.decision


@pytest.mark.slow
def test_a_restarted_controller_goes_on_where_it_was() -> None:
    _, entries = simulated(Sinusoid(baseline=800, amplitude=500, period_s=200), POLICY, until_s=300)
    first, half = Controller(POLICY), len(entries) // 2
    for entry in entries[:half]:
        replay(first, entry.observation, entry)
    second = Controller(POLICY, Knowledge.from_bytes(first.knowledge.to_bytes()))
    for entry in entries[half:]:
        assert replay(second, entry.observation, entry) == entry.decision


def test_knowledge_of_a_row_survives_a_restart() -> None:
    first = Controller(POLICY)
    for observation in steady(300, 20, executors=1):
        first.step(observation)
    again = Knowledge.from_bytes(first.knowledge.to_bytes())
    assert again is not None
    assert again.evaluation.table["row_s"].tolist() == [pytest.approx(0.005)]


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.integers(0, 9000), min_size=6, max_size=25), executors=st.integers(1, 4))
def test_a_recommendation_leaves_no_trace(rows: list[int], executors: int) -> None:
    """What was only proposed is neither remembered nor counted: evaluating alone leads to the same knowledge."""
    recommending, watching = Controller(POLICY), Controller(POLICY)
    proposed = 0
    for step, count in enumerate(rows):
        sample = application((batch(step, 1000.0 + step, count),), gated=True)
        observation = Observation(1000.6 + step, (sample,), pool(executors))
        proposed += len(recommending.step(observation).actions)
        with_nothing_proposed(watching, observation)
    assert recommending.knowledge.targets == Targets()
    assert recommending.knowledge.to_bytes() == watching.knowledge.to_bytes(), f"{proposed} actions were proposed"


def with_nothing_proposed(controller: Controller, observation: Observation) -> None:
    """The step of a controller that watches: everybody looks, nobody proposes."""
    evaluation = controller.evaluator.evaluate(observation)
    knowledge = controller.knowledge
    predictions.judge(knowledge.outstanding, evaluation, knowledge.evaluation.table)
    arbiter = controller._arbiter
    assert arbiter is not None
    arbiter.watch(evaluation)
    guards.watch(knowledge.guards, observation.time_s, observation.pool, POLICY)
    controller._tuning.watch(evaluation, (), ())


@pytest.mark.slow
@settings(max_examples=60)
@given(
    rows=st.lists(st.integers(0, 20_000), min_size=4, max_size=40),
    executors=st.integers(0, 9),
    least=st.integers(1, 4),
    room=st.integers(0, 4),
)
def test_executors_are_never_asked_for_outside_the_bounds(
    rows: list[int], executors: int, least: int, room: int
) -> None:
    policy = Policy.model_validate({"executors": {"min": least, "max": least + room}})
    controller = Controller(policy)
    for step, count in enumerate(rows):
        sample = application((batch(step, 1000.0 + step, count),))
        decision = controller.step(Observation(1000.6 + step, (sample,), pool(executors)))
        for action in decision.actions:
            if isinstance(action, ScaleExecutors):
                assert least <= action.target <= least + room


@pytest.mark.slow
@settings(max_examples=60)
@given(rows=st.integers(0, 3000), more=st.integers(0, 3000), executors=st.integers(1, 6), backlog=st.integers(0, 9000))
def test_more_load_never_means_fewer_executors(rows: int, more: int, executors: int, backlog: int) -> None:
    policy = Policy.model_validate(
        {"executors": {"min": 1, "max": 50}, "guards": {"cool_down_up_s": 0, "cool_down_down_s": 0}}
    )

    def with_backlog(observations: list[Observation]) -> list[Observation]:
        last = observations[-1]
        sample = last.applications[0]
        loaded = replace(sample, batches=(replace(sample.batches[0], backlog_rows=backlog),))
        return [*observations[:-1], replace(last, applications=(loaded,))]

    light = final_size(with_backlog(steady(rows, 15, executors)), policy)
    heavy = final_size(with_backlog(steady(rows + more, 15, executors)), policy)
    assert heavy >= light


@settings(max_examples=30)
@given(age_s=st.floats(31, 500), rows=st.integers(1, 20_000), executors=st.integers(1, 6))
def test_nothing_changes_on_stale_metrics(age_s: float, rows: int, executors: int) -> None:
    controller = Controller(POLICY)
    for observation in steady(rows, 10, executors):
        controller.step(observation)
    last_s = 1009.5
    stale = application((), last_progress_s=last_s)
    decision = controller.step(Observation(last_s + age_s, (stale,), pool(executors)))
    assert decision.holds
    assert decision.reasons[0].code == "metrics-stale"


@pytest.mark.parametrize(
    ("sample", "code"),
    [
        (application((), last_progress_s=None), "metrics-missing"),
        (application((), last_progress_s=1000.0), "metrics-missing"),
        (application((batch(1, 1000.0, 0, backlog_rows=500),)), "metrics-zero"),
        (application((batch(1, 1000.0, 100, busy_s=None),)), "metrics-missing"),
        (application((batch(1, 1000.0, 100),), running=False), "metrics-ended"),
        (application((batch(1, 1000.0, 100),), error="out of memory"), "metrics-failed"),
    ],
)
def test_metrics_that_cannot_be_trusted_hold_everything(sample: object, code: str) -> None:
    decision = Controller(POLICY).step(Observation(1001.0, (sample,), pool(2)))  # type: ignore[arg-type]
    assert decision.holds
    assert decision.reasons[0].code == code


def test_one_blind_application_keeps_the_pool_from_shrinking() -> None:
    controller = Controller(POLICY)
    blind = application((), name="blind", last_progress_s=None)
    codes = set()
    for observation in steady(20, 120, executors=4):
        decision = controller.step(replace(observation, applications=(*observation.applications, blind)))
        assert decision.holds
        codes.add(decision.reasons[0].code)
    assert "hold-blind" in codes


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [MetricsMissing(60, 120), MetricsStale(60, 120), ExecutorLost(100)],
)
def test_faults_do_not_shrink_a_busy_pool(fault: object) -> None:
    _, entries = simulated(Constant(rate=1200), POLICY, until_s=300, executors=3, faults=(fault,))
    assert all(target >= 2 for _, target in sizes(entries)), "1200 rows/s at 5 ms need six slots: two executors"


def test_a_query_that_cannot_use_more_slots_gets_no_more() -> None:
    controller = Controller(POLICY)
    serial = [
        replace(
            observation,
            applications=(
                replace(
                    observation.applications[0],
                    batches=tuple(
                        replace(made, operators=(replace(made.operators[0], parallelism=2),))
                        for made in observation.applications[0].batches
                    ),
                ),
            ),
        )
        for observation in steady(5000, 20, executors=1)
    ]
    assert all(controller.step(observation).holds for observation in serial)


def test_an_ignored_application_is_watched_only() -> None:
    policy = Policy.model_validate({"applications": {"app": {"ignore": True}}})
    decision = [Controller(policy).step(observation) for observation in steady(9000, 10, executors=1)][-1]
    assert decision.holds
    assert decision.reasons[0].code == "hold-no-application"


@pytest.mark.slow
def test_a_stream_that_falls_silent_lets_the_pool_shrink() -> None:
    controller = Controller(POLICY)
    for observation in steady(2500, 30, executors=5):
        controller.step(observation)
    targets = []
    for second in range(31, 400):
        now_s = 1000.0 + second
        idle = application((), last_progress_s=now_s - second % 10, in_batch=False)
        decision = controller.step(Observation(now_s, (idle,), pool(min([5, *targets]))))
        targets += [action.target for action in decision.actions if isinstance(action, ScaleExecutors)]
    assert targets == sorted(targets, reverse=True), "never up again"
    assert targets[-1] <= 2


def test_rows_that_pile_up_behind_a_long_batch_are_seen_before_it_ends() -> None:
    controller = Controller(POLICY)
    for observation in steady(700, 30, executors=1):
        controller.step(replace(observation, pool=pool(2)))
    long_batch = application((), last_progress_s=1029.5)
    wanted = [controller.step(Observation(1030.0 + second, (long_batch,), pool(2))) for second in range(20)]
    targets = [
        action.target for decision in wanted for action in decision.actions if isinstance(action, ScaleExecutors)
    ]
    assert max(targets, default=0) > 2


@pytest.mark.parametrize("interval_s", [16.0, 40.0])
def test_slow_batches_are_planned_for(interval_s: float) -> None:
    policy = Policy.model_validate({"objective": {"latency_s": 120}, "guards": {"max_age_s": 120}})
    controller = Controller(policy)
    wanted: list[ScaleExecutors] = []
    for number in range(12):
        start_s = 1000.0 + number * interval_s
        made = batch(
            number,
            start_s,
            20_000,
            duration_s=0.99 * interval_s,
            busy_s=4 * 0.95 * interval_s,
            backlog_rows=12_000 * (number + 1),
        )
        seen = application((made,), interval_s=interval_s)
        decision = controller.step(Observation(start_s + 0.95 * interval_s, (seen,), pool(1)))
        wanted += [action for action in decision.actions if isinstance(action, ScaleExecutors)]
    assert wanted


def test_a_pool_below_its_minimum_is_brought_up() -> None:
    policy = Policy.model_validate({"executors": {"min": 3, "max": 5}})
    assert final_size(steady(50, 20, executors=1), policy) == 3, "the bounds are absolute: at once"


def test_admission_never_strangles_a_query_whose_batches_are_all_overhead() -> None:
    policy = Policy.model_validate({"objective": {"latency_s": 1}})
    controller = Controller(policy)
    for observation in steady(300, 20, executors=1):
        sample = observation.applications[0]
        slow = tuple(replace(made, overhead_s=0.45) for made in sample.batches)
        decision = controller.step(replace(observation, applications=(replace(sample, batches=slow, gated=True),)))
        for action in decision.actions:
            if isinstance(action, SetAdmission):
                assert action.rows_per_trigger is None or action.rows_per_trigger >= 300


def test_knowledge_of_applications_that_are_gone_is_bounded() -> None:
    controller = Controller(POLICY)
    for number in range(100):
        seen = application((batch(0, 1000.0 + number, 10),), name=f"one-shot-{number}")
        controller.step(Observation(1001.0 + number, (seen,), pool(1)))
    known = controller.knowledge.evaluation.table.names
    assert len(known) == 65
    assert {"one-shot-99", "one-shot-35"} <= set(known)


@pytest.mark.slow
def test_a_scheduled_minimum_is_there_from_its_first_minute_to_its_last() -> None:
    minimum = [{"cron": "1 * * * *", "for": "2m", "executors": 3}]
    policy = Policy.model_validate({"objective": {"latency_s": 8}, "executors": {"max": 6, "minimum": minimum}})
    _, entries = simulated(Constant(rate=50), policy, until_s=420)
    changes = sizes(entries)
    assert changes[0] == (60.0, 3), "in one step"
    assert all(time_s >= 180 for time_s, _ in changes[1:])
    assert changes[-1][1] == 1


@pytest.mark.slow
def test_nothing_is_shrunk_in_a_freeze() -> None:
    load = Burst(base=400, peak=1200, start_s=60, duration_s=120)
    frozen = POLICY.model_validate(
        POLICY.model_dump(mode="json") | {"freeze": [{"cron": "3 0 * * *", "for": "5m", "reason": "release"}]}
    )
    _, entries = simulated(load, frozen, until_s=800)
    changes = sizes(entries)
    assert min(time_s for time_s, _ in changes) < 75, "growth goes on"
    assert not [time_s for (_, before), (time_s, after) in pairwise(changes) if after < before and 180 <= time_s < 480]
    assert changes[-1][1] == 1
    held = [held.guard for entry in entries if entry.decision for held in entry.decision.held]
    assert "freeze" in held
