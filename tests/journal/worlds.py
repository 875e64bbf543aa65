"""Steps for the journal's tests: a steady load, decided on by the real controller."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tests.core.worlds import steady
from tidegate.control.controller import Controller
from tidegate.control.journal import SqliteJournal
from tidegate.domain import ActionReceipt, Decision, Mode, Observation, Outcome, Receipt
from tidegate.domain.policy import Policy

Step = tuple[Observation, Decision, Receipt | None]


@lru_cache(maxsize=8)
def steps(count: int, every_s: float = 1.0, rows: int = 3000) -> tuple[Step, ...]:
    """The controller acts now and then; a receipt answers every action."""
    controller, found = Controller(Policy(mode=Mode.APPLY)), list[Step]()
    for number, observation in enumerate(steady(rows, count, executors=1, start_s=60_000.0)):
        observation = replace(observation, time_s=60_000.6 + number * every_s)
        decision = controller.step(observation)
        done = tuple(ActionReceipt(action, Outcome.DONE) for action in decision.actions)
        found.append((observation, decision, Receipt(done) if done else None))
    return tuple(found)


def write(journal: SqliteJournal, some: tuple[Step, ...]) -> None:
    for step in some:
        journal.record(*step)
