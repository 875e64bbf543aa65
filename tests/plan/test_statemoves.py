"""State moves: where partitions should be, and the proposer in a closed loop with the simulated world."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.core.worlds import application, batch, pool
from tidegate.adapters.sim import SimApplication, SimCluster, SimOperator
from tidegate.cli.app import app
from tidegate.control.journal import SqliteJournal
from tidegate.domain import (
    ActionReceipt,
    ApplicationSample,
    Decision,
    ExecutorPool,
    MoveJudgement,
    MoveState,
    Observation,
    Outcome,
    Reason,
    Receipt,
    ScaleExecutors,
    Targets,
)
from tidegate.domain.policy import Policy
from tidegate.evaluate.evaluator import EvaluationMemory, Evaluator
from tidegate.plan.operators.migration import Instance, Place, migrate
from tidegate.plan.statemoves import StateMoves
from tidegate.plan.statespread import spread

names = st.sampled_from(["0", "1", "2", "3", "gone", ""])


@given(st.lists(names, min_size=1, max_size=40), st.sets(st.sampled_from("0123"), min_size=1))
def test_a_spread_is_even_complete_and_final(places: list[str], there: set[str]) -> None:
    slots = dict.fromkeys(sorted(there), 2)
    moves = spread(places, slots)
    after = [moves.get(number, place) for number, place in enumerate(places)]
    held = Counter(after)
    assert set(held) <= there
    assert max(held.values()) - min(held[executor] for executor in slots) <= 1
    assert spread(after, slots) == {}, "what is even stays"
    needed = sum(place not in there for place in places)
    surplus = sum(max(0, Counter(places)[one] - -(-len(places) // len(slots))) for one in slots)
    assert len(moves) <= needed + surplus + len(slots), "and little moves that need not"


def test_executors_with_more_slots_hold_more() -> None:
    moves = spread(["a"] * 6, {"a": 2, "b": 4})
    assert Counter(moves.values()) == {"b": 4}


def looked(proposer: StateMoves, sample: ApplicationSample, seen: ExecutorPool, time_s: float) -> list[MoveState]:
    """One look of the proposer: the moves that it wants."""
    evaluation = Evaluator(Policy(), EvaluationMemory()).evaluate(Observation(time_s, (sample,), seen))
    proposer.watch(evaluation)
    return [one.action for one in proposer.propose(evaluation).proposals if isinstance(one.action, MoveState)]


def answered(proposer: StateMoves, moves: list[MoveState], outcome: Outcome = Outcome.DONE) -> None:
    decision = Decision(1, 0.0, tuple(moves), (), ())
    proposer.learn(decision, Receipt(tuple(ActionReceipt(move, outcome) for move in moves)))


def stateful(places: str, *batches: Any, **changes: Any) -> ApplicationSample:
    return application(tuple(batches), state_places=tuple(places), state_movable=True, **changes)


def test_an_executor_gets_no_more_at_once_than_its_slots_load() -> None:
    proposer, seen = StateMoves(), pool(2, slots=2)
    moves = looked(proposer, stateful("00000000"), seen, 10.0)
    assert [move.executor for move in moves] == ["1", "1"]
    answered(proposer, moves)
    assert looked(proposer, stateful("00000000"), seen, 11.0) == [], "the first ones are still loading"
    landed = stateful("".join("1" if number in {move.partition for move in moves} else "0" for number in range(8)))
    landed = replace(landed, batches=(batch(5, 11.5, 100),))
    assert len(looked(proposer, landed, seen, 13.0)) == 2
    assert [one.batches for one in proposer._moved] == [1, 1]


def test_a_retiring_executor_is_emptied_with_half_of_the_slots_that_stay() -> None:
    proposer, seen = StateMoves(), pool(2, slots=2)
    seen = replace(seen, executors=(seen.executors[0], replace(seen.executors[1], retiring=True)))
    moves = looked(proposer, stateful("0101"), seen, 10.0)
    assert moves == [MoveState("app", 1, "0")]
    answered(proposer, moves)
    assert looked(proposer, stateful("0101"), seen, 11.0) == [], "the first one is still loading"
    assert looked(proposer, stateful("0001", batch(5, 11.5, 100)), seen, 13.0) == [MoveState("app", 3, "0")]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_what_was_refused_is_left_alone_for_a_while(outcome: Outcome) -> None:
    proposer, seen = StateMoves(), pool(2, slots=2)
    moves = looked(proposer, stateful("0000"), seen, 10.0)
    answered(proposer, moves, outcome)
    assert looked(proposer, stateful("0000"), seen, 20.0) == []
    assert looked(proposer, stateful("0000"), seen, 320.0) == moves


def test_a_move_that_does_not_arrive_is_judged_so_and_not_repeated() -> None:
    proposer, seen = StateMoves(), pool(2, slots=2)
    answered(proposer, looked(proposer, stateful("00"), seen, 10.0))
    for number in range(5):
        assert looked(proposer, stateful("00", batch(number, 11.0 + number, 10)), seen, 12.0 + number) == []
    assert [one.batches for one in proposer._moved] == [None]
    assert looked(proposer, stateful("00"), seen, 20.0) == []


def test_moves_are_judged_in_the_order_in_which_they_were_asked_for() -> None:
    """A set of names has another order in every process, and a replay would not repeat the decision."""
    proposer, seen, names = StateMoves(), pool(2, slots=2), [f"app-{number}" for number in range(9)]
    answered(proposer, [MoveState(name, 0, "1") for name in names])
    landed = tuple(replace(stateful("1", batch(1, 1.0, 10)), name=name) for name in names)
    proposer.watch(Evaluator(Policy(), EvaluationMemory()).evaluate(Observation(2.0, landed, seen)))
    assert [one.move.application for one in proposer._moved] == names


def test_state_that_cannot_be_moved_is_left_and_said() -> None:
    sample = replace(stateful("00"), state_movable=False)
    evaluation = Evaluator(Policy(), EvaluationMemory()).evaluate(Observation(1.0, (sample,), pool(2)))
    plan = StateMoves().propose(evaluation)
    assert not plan.proposals
    assert [reason.code for reason in plan.reasons] == ["hold-state-fixed"]


def test_a_migration_table_decides_until_an_executor_comes_that_it_does_not_know() -> None:
    seen = pool(2, slots=2)
    planned = {Instance("app", "work", task): Place("host", f"{executor}/0") for task, executor in enumerate("1010")}
    table = migrate({}, planned, time_s=5.0)
    proposer = StateMoves()
    proposer.tables = lambda: [table]
    one = batch(1, 9.0, 10)
    done = replace(one, operators=(replace(one.operators[0], stateful=True),))
    moves = looked(proposer, stateful("0011", done), seen, 10.0)
    assert moves == [MoveState("app", 0, "1"), MoveState("app", 3, "0")]
    younger = replace(seen, executors=(seen.executors[0], replace(seen.executors[1], since_s=8.0)))
    assert looked(StateMoves(), stateful("0011", done), younger, 10.0) == []


# in a closed loop


@dataclass(slots=True)
class Step:
    """One turn of the loop: what was seen, asked and judged."""

    seen: Observation
    moves: list[MoveState]
    judged: tuple[MoveJudgement, ...]


def closed_loop(sizes: dict[int, int], until_s: int, noise: float = 0.1) -> list[Step]:
    """A stateful job whose pool is resized at these times, with the proposer alone in charge of its state."""
    operators = (SimOperator("read", 0.0001, 2), SimOperator("count", 0.004, 8, stateful=True, state_keys=5000))
    cluster = SimCluster([SimApplication("app", 200, operators=operators)], 1, 2, seed=3, noise=noise)
    evaluator, proposer, targets, steps = Evaluator(Policy(), EvaluationMemory()), StateMoves(), Targets(), []
    for second in range(1, until_s):
        cluster.advance_to(float(second))
        seen = cluster.observe()
        evaluation = evaluator.evaluate(seen)
        proposer.watch(evaluation)
        plan = proposer.propose(evaluation)
        moves = [one.action for one in plan.proposals if isinstance(one.action, MoveState)]
        scale = [ScaleExecutors(sizes[second])] if second in sizes else []
        targets = targets.after([*moves, *scale])
        receipt = cluster.converge(targets)
        refused = [one.action for one in receipt.actions if one.outcome in {Outcome.REFUSED, Outcome.FAILED}]
        targets = targets.without(refused)
        proposer.learn(Decision(second, seen.time_s, tuple(moves), (), ()), receipt)
        steps.append(Step(seen, moves, plan.moved))
    return steps


def test_a_new_executor_gets_its_part_within_two_batches_and_goes_empty() -> None:
    steps = closed_loop({20: 2, 60: 1}, until_s=100)
    grown = next(place for place, step in enumerate(steps) if step.seen.pool.registered == 2)
    since_s = steps[grown].seen.time_s
    later = [one for step in steps[grown:] for one in step.seen.applications[0].batches if one.started_s >= since_s]
    assert "1" in later[1].operators[1].executors, "useful within two batches"
    assert Counter(later[12].operators[1].executors) == {"0": 4, "1": 4}
    judged = [one for step in steps for one in step.judged]
    assert len(judged) == 8, "four go there and come back"
    assert all(one.batches is not None and one.batches <= 2 for one in judged)
    before, after = next((b, a) for b, a in pairwise(steps) if a.seen.pool.registered < b.seen.pool.registered)
    assert set(after.seen.applications[0].state_places) == {"0"}
    assert before.seen.applications[0].state_places.count("1") <= 2, "all but the last wave had left it before"
    usual = [one.duration_s for step in steps[40:55] for one in step.seen.applications[0].batches]
    alone = [one.duration_s for step in steps[-15:] for one in step.seen.applications[0].batches]
    emptied = [one.duration_s for step in steps[59:75] for one in step.seen.applications[0].batches]
    assert max(emptied) < 1.5 * max(max(usual), max(alone))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_nothing_moves_without_a_change_of_the_pool(noise: float) -> None:
    steps = closed_loop({20: 3}, until_s=120, noise=noise)
    assert sum(len(step.moves) for step in steps) == 5, "eight partitions on three executors: 3, 3 and 2"
    assert not any(step.moves for step in steps[45:])


def test_explain_says_how_the_moves_went(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    for step in closed_loop({20: 2}, until_s=40):
        decision = Decision(1, step.seen.time_s, tuple(step.moves), (), (Reason("hold", "a test"),), moved=step.judged)
        journal.record(step.seen, decision, Receipt())
    journal.close()
    shown = CliRunner().invoke(app, ["explain", str(tmp_path / "j.db")])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[-1] == "4 of 4 state moves in place within two batches"
    plain = json.loads(CliRunner().invoke(app, ["explain", str(tmp_path / "j.db"), "--json"]).stdout)
    assert plain["state_moves"] == {"judged": 4, "soon": 4, "never": 0}
