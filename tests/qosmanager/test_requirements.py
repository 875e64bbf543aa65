"""QoS tables and graphs in decisions: what they buy, what they do not buy, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.core.worlds import simulated, steady
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.cli.app import app
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.knowledge import Knowledge
from tidegate.control.runner import Runner
from tidegate.domain import Decision, Proposal, Reason, ScaleExecutors, SetBatchInterval, SetParallelism
from tidegate.domain.codec import to_json
from tidegate.domain.policy import Policy
from tidegate.load import Burst, Constant, LoadProfile, Spikes, Sum
from tidegate.model import rollout as model
from tidegate.plan import outcomes, patience
from tidegate.plan.interval import BatchInterval
from tidegate.plan.restarts import hold_dear_restarts

CALM = Constant(rate=500)
"""One executor keeps up with it, and 99 % of the rows take 2.1 s."""


def row(bound: float, **others: Any) -> dict[str, Any]:
    return {"metric": "latency_s", "bound": bound, **others}


def graph(*points: tuple[float, float]) -> dict[str, Any]:
    return {"metric": "latency_p99_s", "points": points}


def played(load: LoadProfile, until_s: float = 300.0, most: int = 4, **rule: Any) -> tuple[SimCluster, list[Decision]]:
    policy = {
        "objective": {"latency_s": 20.0},
        "executors": {"max": most},
        "applications": {"app": rule} if rule else {},
        "knobs": {"parallelism": False},
    }
    cluster, entries = simulated(load, Policy.model_validate(policy), until_s, seed=1, max_executors=most)
    return cluster, [entry.decision for entry in entries if entry.decision is not None]


def sizes(decisions: list[Decision]) -> list[int]:
    return [action.target for one in decisions for action in one.actions if isinstance(action, ScaleExecutors)]


def met(decisions: list[Decision]) -> list[bool | None]:
    return [reading.met for reading in decisions[-1].qos]


# what nobody asked for changes nothing


def test_without_rows_and_graphs_every_decision_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    burst = Burst(base=100, peak=1500, start_s=60, duration_s=60)
    bounds: list[int] = []

    def counted(query: model.Query, *others: Any, **more: Any) -> model.Outlook:
        bounds.append(len(query.bounds))
        return model.rollout(query, *others, **more)

    for module in (outcomes, patience):
        monkeypatch.setattr(module, "rollout", counted)
    _, without = played(burst)
    asked = len(bounds)
    _, empty = played(burst, qos_table=[], qos_graphs=[])
    assert [to_json(one) for one in empty] == [to_json(one) for one in without]
    assert len(bounds) == 2 * asked > 0, "and it costs no prediction more"
    assert set(bounds) == {0}


def test_what_the_model_cannot_predict_is_only_monitored() -> None:
    monitored = [
        {"metric": "throughput_rows_per_s", "side": "at least", "bound": 9000},
        {"metric": "latency_max_s", "bound": 0.1},
        {"metric": "cpu_s", "operator": "look-up", "bound": 0.1},
        row(60.0, side="at least"),
    ]
    _, without = played(CALM, until_s=120)
    _, asked = played(CALM, until_s=120, qos_table=monitored)
    assert [(one.actions, one.reasons) for one in asked] == [(one.actions, one.reasons) for one in without]
    assert met(asked)[:2] == [False, False], "they are missed, and the journal says so"
    assert not asked[-1].advice


def test_a_row_that_repeats_the_objective_changes_nothing() -> None:
    burst = Burst(base=100, peak=1500, start_s=60, duration_s=60)
    assert sizes(played(burst, qos_table=[row(20.0)])[1]) == sizes(played(burst)[1])


# rows


def test_a_job_that_misses_a_tighter_row_gets_the_executors_for_it() -> None:
    alone, without = played(CALM)
    assert sizes(without) == []
    assert alone.violation_rate("app", 20.0) == 0.0
    assert (alone.violation_rate("app", 1.8) or 0.0) > 0.1
    _, decisions = played(CALM, qos_table=[row(1.8)])
    assert sizes(decisions) == [3]
    assert met(decisions) == [True]
    (grown,) = (one for one in decisions if sizes([one]))
    reason = next(reason.text for reason in grown.reasons if reason.code == "grow")
    assert "the QoS table of app has latency_s at most 1.8 for 99 % of 60 s:" in reason
    assert "would exceed it with 1 executor" in reason


def test_the_rows_own_share_counts() -> None:
    """Half of the rows take less than 1.7 s with one executor, and 99 % take less than 2.2 s."""
    assert sizes(played(CALM, qos_table=[row(1.8, percentile=0.5)])[1]) == []
    assert sizes(played(CALM, qos_table=[row(1.8)])[1]) == [3]
    by_batch = [{"metric": "latency_p50_s", "bound": 1.8, "percentile": 0.9}]
    assert sizes(played(CALM, qos_table=by_batch)[1]) == []


def test_a_row_that_no_executor_helps_is_answered_with_advice() -> None:
    _, decisions = played(CALM, qos_table=[row(0.5)])
    assert sizes(decisions) == []
    assert met(decisions) == [False]
    advice = {advice.reason.code: advice for advice in decisions[-1].advice}
    assert set(advice) == {"relax-objective", "batch-overhead"}
    assert "but not its QoS table's latency_s at most 0.5 for 99 % of 60 s" in advice["relax-objective"].reason.text
    possible_s = advice["relax-objective"].latency_s
    assert possible_s is not None
    _, relaxed = played(CALM, qos_table=[row(possible_s)])
    assert met(relaxed) == [True]
    assert not relaxed[-1].advice


def test_a_row_that_needs_more_than_the_pool_keeps_the_pool_and_asks_for_more() -> None:
    _, decisions = played(Constant(rate=1200), until_s=600, qos_table=[row(1.6)])
    assert sizes(decisions) == [4], "it grows once and stays"
    assert met(decisions) == [False]
    advice = {advice.reason.code: advice for advice in decisions[-1].advice}
    more = advice["add-executors"].executors
    assert more is not None
    assert more > 4
    assert met(played(Constant(rate=1200), most=more, qos_table=[row(1.6)])[1]) == [True]


def test_executors_that_a_row_needed_in_the_last_bursts_stay() -> None:
    """Bursts of eight seconds. Within 20 s their rows can wait for executors, within 6 s they cannot."""
    bursts = Sum((Constant(rate=100), Spikes(height=1400, every_s=120, width_s=8)))
    _, without = played(bursts)
    assert not any(reason.code == "hold-hindsight" for one in without for reason in one.reasons)
    _, decisions = played(bursts, qos_table=[row(6.0)])
    held = [reason.text for one in decisions for reason in one.reasons if reason.code == "hold-hindsight"]
    assert "would have been over its QoS table's latency_s at most 6 for 99 % of 60 s: not shrinking" in held[0]


# graphs


def test_a_graph_buys_the_speed_that_it_values() -> None:
    _, decisions = played(CALM, qos_graphs=[graph((1.8, 1.0), (2.0, 0.0))])
    assert sizes(decisions) == [2]
    (grown,) = (one for one in decisions if sizes([one]))
    assert "the QoS graphs of app give 0.00 with 1 executor, 1.00 with 2" in str(grown.reasons)
    assert decisions[-1].qos[0].score == pytest.approx(1.0)


@pytest.mark.parametrize(
    "points",
    [
        [(6.0, 1.0), (10.0, 0.0)],  # fast enough
        [(0.5, 1.0), (1.0, 0.0)],  # no executor makes it that fast
        [(-1.0, 1.0), (0.0, 0.0)],  # nor that
        [(1.0, 1.0), (10.0, 0.0)],  # a little faster is worth a little, and an executor costs more
    ],
)
def test_a_graph_that_gives_no_utility_to_more_speed_buys_nothing(points: list[tuple[float, float]]) -> None:
    assert sizes(played(CALM, qos_graphs=[graph(*points)])[1]) == []


def test_a_restarted_controller_decides_the_same() -> None:
    rule = {"qos_table": [row(1.8)], "qos_graphs": [graph((1.5, 1.0), (2.0, 0.0))]}
    policy = Policy.model_validate({"objective": {"latency_s": 20.0}, "applications": {"app": rule}})
    _, entries = simulated(Burst(base=100, peak=900, start_s=40, duration_s=40), policy, 120.0, seed=1)
    controller = Controller(policy)
    for number, entry in enumerate(entries):
        if number % 20 == 10:
            controller = Controller(policy, Knowledge.from_bytes(controller.knowledge.to_bytes()))
        assert entry.observation is not None
        decision = controller.step(entry.observation)
        assert decision == entry.decision
        if entry.receipt is not None:
            controller.learn(decision, entry.receipt)
    assert any(sizes([entry.decision]) for entry in entries if entry.decision is not None)


# other knobs


def intervals(interval_s: float, rate: float, operator: SimOperator, **rule: Any) -> list[float]:
    job = SimApplication("job", Constant(rate=rate), interval_s=interval_s, gated=False, operators=(operator,))
    cluster, journal = SimCluster([job], executors=4, slots_per_executor=2, seed=1), MemoryJournal()
    applications = {"job": rule} if rule else {}
    policy = {"objective": {"latency_s": 60}, "executors": {"min": 4, "max": 4}, "applications": applications}
    controller = Controller(Policy.model_validate(policy), proposers=[BatchInterval()])
    Runner(cluster, controller, cluster.clock, journal, journal).run(until_s=160.0)
    actions = [action for entry in journal.entries if entry.decision for action in entry.decision.actions]
    return [action.interval_s for action in actions if isinstance(action, SetBatchInterval)]


def test_the_interval_is_halved_for_a_row_and_not_doubled_against_it() -> None:
    plain, chatty = SimOperator("work", 0.002), SimOperator("work", 0.001, parallelism=60, task_overhead_s=0.05)
    assert intervals(8.0, 100, plain) == []
    assert intervals(8.0, 100, plain, qos_table=[row(9.0)])[:1] == [4.0]
    assert intervals(1.0, 2000, chatty)[:1] == [2.0]
    assert intervals(1.0, 2000, chatty, qos_table=[row(3.0)]) == []


@pytest.mark.parametrize(
    ("rule", "held"), [({}, False), ({"qos_table": [row(3.0)]}, True), ({"qos_table": [row(0.5)]}, False)]
)
def test_a_pause_that_a_row_does_not_bear_is_not_made(rule: dict[str, Any], held: bool) -> None:
    """Rows wait six seconds. The objective allows a minute, and a row that is missed anyway has no say."""
    policy = {"objective": {"latency_s": 60}, "applications": {"app": rule}}
    controller = Controller(Policy.model_validate(policy))
    for observation in steady(200, 30, executors=1):
        controller.step(observation)
    assert controller._evaluation is not None
    restart = Proposal(SetParallelism("app", "work", 48), Reason("rescale-few-tasks", "more tasks"), pause_s=6.0)
    kept, reasons = hold_dear_restarts((restart,), controller._evaluation)
    assert kept == (() if held else (restart,))
    assert all("counting its QoS table" in reason.text for reason in reasons)


def test_the_policy_command_says_what_counts(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "applications:\n  words:\n    qos_table:\n      - {metric: latency_s, bound: 2}\n"
        "      - {metric: backlog_rows, bound: 500}\n"
    )
    said = CliRunner().invoke(app, ["policy", str(tmp_path / "policy.yaml")]).output
    assert "words: counts in decisions: latency_s at most 2 for 99 % of 60 s" in said
    assert "words: only monitored: backlog_rows at most 500 for 99 % of 60 s" in said
