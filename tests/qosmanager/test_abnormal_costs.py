"""Abnormal task times are kept from learners; arrivals never are, and what lasts is the new normal."""

from __future__ import annotations

import pytest

from tests.core.worlds import application, batch, pool
from tidegate.control.controller import Controller
from tidegate.control.knowledge import Knowledge
from tidegate.domain import Decision, Observation
from tidegate.domain.policy import Policy

POLICY = Policy.model_validate({"executors": {"max": 6}})


def played(costs: list[float], rows: list[int] | None = None) -> list[Observation]:
    """A batch a second; every row costs so many times its 5 ms, give or take a little."""
    sizes = rows or [300 + 7 * (step % 5) for step in range(len(costs))]
    return [
        Observation(
            1000.6 + step,
            (
                application(
                    (batch(step, 1000.0 + step, size, busy_s=0.005 * size * cost * (1 + 0.01 * (step % 3))),),
                ),
            ),
            pool(1),
        )
        for step, (cost, size) in enumerate(zip(costs, sizes, strict=True))
    ]


def stepped(observations: list[Observation]) -> tuple[Controller, list[Decision]]:
    controller = Controller(POLICY)
    return controller, [controller.step(observation) for observation in observations]


def abnormal(decisions: list[Decision]) -> list[int]:
    return [step for step, decision in enumerate(decisions) if decision.set_aside]


def row_s(controller: Controller) -> float:
    table = controller.knowledge.evaluation.table
    return float(table["row_s"][0] + table["batch_s"][0] / 314)


def test_a_spike_is_journalled_and_not_learnt_from() -> None:
    controller, decisions = stepped(played([1.0] * 120 + [12.0] + [1.0] * 3))
    assert abnormal(decisions) == [120]
    assert row_s(controller) == pytest.approx(0.005, rel=0.03)
    rows_done = controller.knowledge.evaluation.table["rows_done"][0]
    assert rows_done == sum(300 + 7 * (step % 5) for step in range(124))


def test_what_lasts_is_the_new_normal() -> None:
    controller, decisions = stepped(played([1.0] * 120 + [3.0] * 70))
    assert len(abnormal(decisions)) <= 3
    assert row_s(controller) == pytest.approx(0.015, rel=0.05)


def test_a_burst_of_rows_is_load_and_nothing_abnormal() -> None:
    rows = [300 + 7 * (step % 5) for step in range(120)] + [3000] * 20
    controller, decisions = stepped(played([1.0] * 140, rows))
    assert not abnormal(decisions)
    assert any(decision.actions for decision in decisions[120:]), "the pool grows"
    assert controller.knowledge.evaluation.table["size"][0] == 3000


def test_steady_costs_are_never_abnormal() -> None:
    _, decisions = stepped(played([1.0] * 300))
    assert not abnormal(decisions)


@pytest.mark.slow
@pytest.mark.parametrize("restart", [200, 257])
def test_a_restarted_controller_sets_the_same_batches_aside(restart: int) -> None:
    costs = [1.0] * 320
    for spike in (90, 210, 258, 310):
        costs[spike] = 9.0
    observations = played(costs)
    _, decisions = stepped(observations)
    assert abnormal(decisions) == [90, 210, 258, 310]
    first = Controller(POLICY)
    for observation in observations[:restart]:
        first.step(observation)
    second = Controller(POLICY, Knowledge.from_bytes(first.knowledge.to_bytes()))
    assert [second.step(observation) for observation in observations[restart:]] == decisions[restart:]
