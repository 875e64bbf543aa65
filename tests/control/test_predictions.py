"""Predictions: which are kept, until when, and what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.worlds import SLOTS, application, batch, pool, simulated
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.cli.explain import judged_predictions
from tidegate.control import predictions
from tidegate.control.controller import Controller
from tidegate.control.journal import Entry, MemoryJournal
from tidegate.control.knowledge import Knowledge, Outstanding
from tidegate.control.runner import Runner
from tidegate.domain import (
    Action,
    ApplicationSample,
    BatchSample,
    Decision,
    Judgement,
    LatencySample,
    Observation,
    Prediction,
    RebalanceReport,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluator import Evaluator
from tidegate.load import Burst, Constant, LoadProfile, Poisson, Sinusoid

TWO_CLASSES = Policy.model_validate(
    {
        "executors": {"min": 1, "max": 4},
        "classes": {"gold": {"latency_s": 8, "weight": 6}, "bronze": {"latency_s": 20, "weight": 1}},
        "applications": {"pay": {"class": "gold"}, "report": {"class": "bronze"}},
    }
)


def query(name: str, load: LoadProfile) -> SimApplication:
    operators = (
        SimOperator("read", cost_s_per_row=0.0001, parallelism=2),
        SimOperator("look-up", cost_s_per_row=0.005, parallelism=32),
    )
    return SimApplication(name, load, interval_s=1.0, overhead_s=0.3, operators=operators)


def judged(entries: Sequence[Entry]) -> list[Judgement]:
    return [one for entry in entries if entry.decision is not None for one in entry.decision.judged]


def test_predictions_fall_due_although_classes_act_at_almost_every_step() -> None:
    loads = {
        "pay": Poisson(of=Constant(rate=500), seed=1),
        "report": Poisson(of=Burst(base=150, peak=600, start_s=100, duration_s=60), seed=2),
    }
    applications = [query(name, load) for name, load in loads.items()]
    cluster = SimCluster(applications=applications, executors=1, slots_per_executor=SLOTS)
    journal = MemoryJournal()
    controller = Controller(TWO_CLASSES)
    Runner(cluster, controller, cluster.clock, journal, journal).run(until_s=300)
    acted = [entry for entry in journal.entries if entry.decision is not None and entry.decision.actions]
    assert len(acted) > 100
    found = judged(journal.entries)
    assert all(sum(one.prediction.application == name for one in found) >= 5 for name in loads)
    accuracy = judged_predictions(journal.entries)
    assert accuracy.p99_error is not None
    assert accuracy.p99_error < 0.3
    assert accuracy.late_share_error is not None
    assert accuracy.late_share_error < 0.02
    together = [entry for entry in journal.entries if len(entry.outcomes) == 2]
    assert together, "the outcomes of both applications stand beside the decision"
    assert len(controller.knowledge.outstanding) <= 2


@pytest.mark.slow
def test_a_prediction_covers_what_it_is_compared_with() -> None:
    """Latencies of several times the objective are predicted and measured for the same rows, during a backlog too."""
    policy = Policy.model_validate({"objective": {"latency_s": 8}, "executors": {"min": 1, "max": 6}})
    _, entries = simulated(Sinusoid(baseline=1000, amplitude=800, period_s=300), policy, until_s=1200)
    found = [one for one in judged(entries) if one.p99_s is not None]
    assert len(found) >= 5
    errors = sorted(abs(one.prediction.p99_s - one.p99_s) / one.p99_s for one in found if one.p99_s is not None)
    assert errors[len(errors) // 2] < 0.3


class World:
    """One application, observed once a second; what is predicted and decided is given."""

    def __init__(self) -> None:
        policy = Policy()
        self.knowledge = Knowledge()
        self.evaluator = Evaluator(policy, self.knowledge.evaluation)
        self.time_s = 1000.0
        self.step = 0

    @property
    def outstanding(self) -> list[Outstanding]:
        return self.knowledge.outstanding

    def see(self, *batches: BatchSample, executors: int = 2, **changes: Any) -> tuple[Judgement, ...]:
        self.time_s += 1.0
        changes = {"in_batch": False, **changes}
        sample = application(batches, **{"last_progress_s": self.time_s, **changes})
        return self.observe(sample, executors=executors)

    def observe(self, *samples: ApplicationSample, executors: int = 2) -> tuple[Judgement, ...]:
        observation = Observation(self.time_s, samples, pool(executors))
        self.evaluation = self.evaluator.evaluate(observation)
        return predictions.judge(self.outstanding, self.evaluation, self.knowledge.evaluation.table)

    def decide(self, *predicted: Prediction, actions: tuple[Action, ...], refused: tuple[Action, ...] = ()) -> None:
        self.step += 1
        decision = Decision(self.step, self.time_s, actions, (), (), predictions=predicted)
        predictions.expect(self.outstanding, decision, self.evaluation, self.knowledge.evaluation.table, refused)

    def batch(self, latency_s: float, rows: int = 100, **changes: Any) -> BatchSample:
        latency = LatencySample(rows, latency_s, latency_s, latency_s, latency_s)
        return batch(self.step, self.time_s, rows, latency=latency, **changes)

    def predicted(self, in_s: float = 10.0, executors: int = 2, **changes: Any) -> Prediction:
        return Prediction("app", self.time_s + in_s, 2.0, 0.0, executors, **changes)

    @property
    def steps_kept(self) -> list[int]:
        return [one.step for one in self.outstanding]


@pytest.fixture
def world() -> World:
    made = World()
    made.see(made.batch(1.0))
    return made


LIMIT = SetAdmission("app", 100)


def test_an_older_prediction_is_kept_until_it_is_due(world: World) -> None:
    world.decide(world.predicted(3.0), actions=(LIMIT,))
    for _ in range(2):
        assert not world.see(world.batch(2.0))
        world.decide(world.predicted(3.0), actions=(LIMIT,))
        assert world.steps_kept == [1]
    (found,) = world.see(world.batch(2.0))
    assert (found.step, found.late_share) == (1, 0.0)
    assert found.p99_s == pytest.approx(2.0, rel=0.025)
    assert not world.outstanding


def test_it_waits_for_the_rows_that_had_arrived_when_it_fell_due(world: World) -> None:
    world.decide(world.predicted(1.0), actions=(LIMIT,))
    assert not world.see(world.batch(1.0, backlog_rows=150))
    assert not world.see(world.batch(4.0, backlog_rows=100))
    (found,) = world.see(world.batch(8.0))
    assert found.p99_s == pytest.approx(8.0, rel=0.025)
    assert not world.outstanding


def test_it_does_not_wait_for_ever(world: World) -> None:
    world.decide(world.predicted(1.0), actions=(LIMIT,))
    assert not world.see(world.batch(1.0, backlog_rows=10_000))
    for _ in range(299):
        assert not world.see(last_progress_s=1000.0)
    (found,) = world.see()
    assert found.p99_s == pytest.approx(1.0, rel=0.025)


def test_rows_of_cold_batches_do_not_count(world: World) -> None:
    world.decide(world.predicted(1.0), actions=(LIMIT,))
    (found,) = world.see(world.batch(9.0, warming=True))
    assert (found.p99_s, found.late_share) == (None, None)


def test_another_size_voids_it_and_starts_the_next(world: World) -> None:
    world.decide(world.predicted(), actions=(LIMIT,))
    world.decide(world.predicted(executors=3), actions=(ScaleExecutors(3),))
    assert world.steps_kept == [2]
    world.see(world.batch(1.0), executors=2)
    world.see(world.batch(1.0), executors=3)
    assert world.steps_kept == [2], "the pool may take a while to change"
    world.see(world.batch(1.0), executors=1)
    assert not world.outstanding, "somebody else changed it"


def test_a_size_that_never_came_is_not_compared(world: World) -> None:
    world.decide(world.predicted(1.0, executors=1), actions=(ScaleExecutors(1),))
    assert not world.see(world.batch(1.0), executors=2)
    assert not world.outstanding


@pytest.mark.parametrize("refused", [False, True])
def test_a_size_that_guards_or_the_cluster_held_back_is_not_expected(world: World, refused: bool) -> None:
    growth = ScaleExecutors(3)
    actions: tuple[Action, ...] = (LIMIT, growth) if refused else (LIMIT,)
    world.decide(world.predicted(executors=3), actions=actions, refused=(growth,))
    assert not world.outstanding


@pytest.mark.parametrize("action", [SetParallelism("app", "count", 8), SetBatchInterval("app", 2.0)], ids=str)
def test_a_decision_for_other_tasks_or_triggers_voids_it(world: World, action: Action) -> None:
    world.decide(world.predicted(), actions=(LIMIT,))
    world.decide(world.predicted(), actions=(action,))
    assert not world.outstanding, "nor is the new one kept: it was made for the configuration before"


def test_what_is_predicted_of_an_interval_is_kept_if_it_is_set(world: World) -> None:
    both = world.predicted(), world.predicted(interval_s=2.0)
    world.decide(*both, actions=(SetBatchInterval("app", 2.0),))
    assert [one.prediction.interval_s for one in world.outstanding] == [2.0]
    world.outstanding.clear()
    world.decide(*both, actions=(LIMIT,))
    assert [one.prediction.interval_s for one in world.outstanding] == [None]


@pytest.mark.parametrize("restart", [{"rebalancing": True}, {"rebalance": RebalanceReport(True, 3.0)}], ids=str)
def test_a_restart_voids_it(world: World, restart: dict[str, Any]) -> None:
    world.decide(world.predicted(), actions=(LIMIT,))
    world.see(world.batch(1.0), **restart)
    assert not world.outstanding


def test_an_application_that_ended_is_not_compared(world: World) -> None:
    world.decide(world.predicted(), actions=(LIMIT,))
    world.time_s += 1
    assert not world.observe(application((), name="other"))
    assert not world.outstanding


def test_memory_is_bounded() -> None:
    world, names = World(), [f"app-{number}" for number in range(200)]
    world.observe(*(application((world.batch(1.0),), name=name) for name in names))
    for first in range(0, 200, 8):
        some = [Prediction(name, world.time_s + 5, 1.0, 0.0, 2) for name in names[first : first + 8]]
        world.decide(*some, actions=(LIMIT,))
    assert len(world.outstanding) == predictions.MOST_OUTSTANDING
    for number in range(300):
        world.time_s += 0.01
        samples = [application((world.batch(0.01 * 1.02**number),), name=name) for name in names[:64]]
        world.observe(*samples)
    assert max(len(one.latencies) for one in world.outstanding) < 150, "one entry for every 5 %"


def test_a_restarted_controller_compares_what_the_one_before_predicted(world: World) -> None:
    world.decide(world.predicted(3.0), actions=(LIMIT,))
    world.see(world.batch(1.0))
    again = Knowledge.from_bytes(world.knowledge.to_bytes())
    assert again is not None
    assert again.outstanding == world.outstanding
