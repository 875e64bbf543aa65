"""Operators in closed loops on a pool of fixed size: helped where that is possible, and told why where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.operators.worlds import COUNT, LINES, SPLIT, WORDS, codes, rescales, run, text_of, with_operators
from tidegate.adapters.sim.application import SimOperator
from tidegate.domain import Mode
from tidegate.plan.proposersettings import OperatorSettings
from tidegate_lab.experiments.identification import draw_case, run_case

LIGHT = replace(SPLIT, cost_s_per_row=0.0004)
WIDE = replace(LINES, parallelism=4)


def execute_latency_s(entries, first: float, last: float) -> float:  # type: ignore[no-untyped-def]
    """Mean over batches, from the first task's start to the last one's end."""
    batches = [
        batch
        for entry in entries
        for batch in entry.observation.applications[0].batches
        if first <= batch.started_s < last and not batch.warming
    ]
    return sum(batch.duration_s - batch.overhead_s for batch in batches) / len(batches)


def test_wordcount_adjusts_itself_as_in_the_paper() -> None:
    cluster, entries = run(WORDS, objective_s=2.0, until_s=90)
    assert rescales(entries) == [
        ["words.lines: parallelism → 3", "words.split: parallelism → 6", "words.count: parallelism → 5"]
    ], "all operators in one restart"
    assert cluster.gates[0].restarts == 1
    assert execute_latency_s(entries, 4, 20) / execute_latency_s(entries, 50, 90) >= 3.49
    reason = text_of(entries, "rescale-few-tasks")
    assert "split is the bottleneck (compute" in reason
    assert "paid back in" in reason
    assert "level 1 of 1, level priority" in reason
    assert {"helped", "migration", "hold-stable"} <= codes(entries), "judged, compared with the tables, watched slowly"


def test_state_makes_the_pause_longer_and_dearer() -> None:
    stateful = with_operators(LINES, replace(SPLIT, stateful=True, state_keys=50_000))
    _, entries = run(stateful, objective_s=2.0, until_s=60)
    assert "the pause of 12." in text_of(entries, "rescale-few-tasks")
    strict, entries = run(stateful, objective_s=2.0, until_s=60, settings=OperatorSettings(payback_s=20))
    assert strict.gates[0].restarts == 0
    assert "20 s allowed" in text_of(entries, "hold-payback")


@pytest.mark.parametrize(
    ("application", "objective_s", "code", "says"),
    [
        (with_operators(LINES, LIGHT, sink_s=0.8), 1.8, "hold-slow-sink", "the sink"),
        (with_operators(LINES, LIGHT, overhead_s=0.8), 1.8, "hold-driver-bound", "driver"),
        (with_operators(LINES, replace(SPLIT, parallelism=4, hot_share=0.7)), 1.2, "hold-skew", "partition"),
    ],
)
def test_no_useless_scale_up(application, objective_s, code, says) -> None:  # type: ignore[no-untyped-def]
    cluster, entries = run(application, objective_s=objective_s, until_s=60)
    assert cluster.gates[0].restarts == 0
    assert says in text_of(entries, code)


def test_a_scale_up_that_does_not_help_is_taken_back_and_not_repeated() -> None:
    cluster, entries = run(with_operators(WIDE, replace(SPLIT, works_at_once=1)), objective_s=1.5, until_s=90)
    assert rescales(entries) == [["words.split: parallelism → 6"], ["words.split: parallelism → 1"]]
    assert "6 tasks did not help" in text_of(entries, "useless")
    assert "6 tasks did not help" in text_of(entries, "hold-serial")
    assert cluster.gates[0].parallelism == [4, 1]


def test_an_operator_that_ignores_its_setting_is_left_alone_after_two_tries() -> None:
    _, entries = run(with_operators(replace(SPLIT, name="lines", fixed=True), COUNT), objective_s=1.6, until_s=100)
    tries = sum("lines" in str(asked) for asked in rescales(entries))
    assert tries == 2 or (tries == 1 and "not now" in text_of(entries, "hold-pause"))


def test_tasks_that_are_too_small_become_fewer() -> None:
    tiny = SimOperator("count", 0.0002, parallelism=200, task_overhead_s=0.02)
    cluster, entries = run(with_operators(LINES, tiny), objective_s=1.5, until_s=60)
    assert "too small" in text_of(entries, "rescale-small-tasks")
    assert cluster.gates[0].parallelism[1] <= 6


def test_a_growing_backlog_is_serious() -> None:
    cluster, entries = run(replace(WORDS, load=600), objective_s=60.0)
    assert "its backlog grows with every batch" in text_of(entries, "rescale-few-tasks")
    assert cluster.gates[0].parallelism[0] > 1, "the source's parallelism rises too"


def test_levels_share_the_free_slots() -> None:
    both = [replace(WORDS, name="a"), replace(WORDS, name="b", load=300)]
    cluster, entries = run(*both, objective_s=1.5, until_s=60)
    assert "level 2 of 2, parameter priority" in text_of(entries, "rescale-few-tasks")
    assert sum(max(gate.parallelism) for gate in cluster.gates) <= 6
    by_level, entries = run(*both, objective_s=1.5, until_s=60, settings=OperatorSettings(rule="level"))
    assert "level priority" in text_of(entries, "rescale-few-tasks")
    assert max(by_level.gates[0].parallelism) == 5, "the highest level takes all free slots, one is the other's"


def test_recommending_asks_again_and_blames_nobody() -> None:
    cluster, entries = run(WORDS, objective_s=2.0, until_s=80, mode=Mode.RECOMMEND)
    assert cluster.gates[0].restarts == 0
    assert len(rescales(entries)) >= 2
    assert not {"useless", "parallelism-ignored", "hold-trial"} & codes(entries)


def test_what_cannot_be_restarted_is_told() -> None:
    cluster, entries = run(replace(WORDS, restartable=False), objective_s=2.0, until_s=40)
    assert "hold-not-restartable" in codes(entries)
    assert cluster.gates[0].restarts == 0


@pytest.mark.parametrize("seed", [3, 10])
def test_planted_bottlenecks_are_named(seed: int) -> None:
    case = draw_case("planted", seed)
    verdict = run_case(case, seed, watched_s=100)
    assert (verdict.named, verdict.kind, verdict.kept) == (case.operator, case.kind, True)
    assert 1 <= verdict.reconfigurations <= 3


def test_a_balanced_application_is_left_alone() -> None:
    verdict = run_case(draw_case("balanced", 5), 5, watched_s=80)
    assert verdict.reconfigurations == 0
