"""The loop: one step that fails does not end it, and however it ends, what was turned is turned back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.core.worlds import steady
from tidegate.control.clock import WallClock
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal, SqliteJournal, read_entries
from tidegate.control.runner import MOST_FAILURES, Runner
from tidegate.domain import ActionReceipt, Mode, Observation, Outcome, Receipt, ScaleExecutors, Targets
from tidegate.domain.policy import Policy

POLICY = Policy.model_validate({"objective": {"latency_s": 4}, "executors": {"min": 2, "max": 4}})


class World:
    """Plays observations again and again; fails at the looks it is told to fail at."""

    def __init__(self, failing: Iterable[int] = (), refuses: bool = False) -> None:
        self._observations = steady(200, 60, executors=1)
        self._failing = set(failing)
        self._refuses = refuses
        self.looks = 0
        self.targets: list[Targets] = []
        self.released = 0

    def observe(self) -> Observation:
        self.looks += 1
        if self.looks in self._failing:
            raise OSError("the driver does not answer")
        return self._observations[min(self.looks, len(self._observations)) - 1]

    def converge(self, targets: Targets) -> Receipt:
        self.targets.append(targets)
        outcome = Outcome.REFUSED if self._refuses else Outcome.DONE
        return Receipt(tuple(ActionReceipt(action, outcome) for action in targets.actions()))

    def release(self) -> None:
        self.released += 1


class Ticking:
    """Time that passes only while somebody sleeps; it remembers for how long."""

    def __init__(self, ticks: int) -> None:
        self._left = ticks
        self.time_s = 0.0
        self.slept_s: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep_until(self, monotonic_s: float) -> bool:
        self.slept_s.append(monotonic_s - self.time_s)
        self.time_s = max(self.time_s, monotonic_s)
        self._left -= 1
        return self._left >= 0


def run(world: World, ticks: int = 20, policy: Policy = POLICY) -> tuple[MemoryJournal, Ticking, Controller]:
    journal, clock, controller = MemoryJournal(), Ticking(ticks), Controller(policy)
    Runner(world, controller, clock, journal, journal).run()
    return journal, clock, controller


def test_a_step_that_fails_is_journalled_and_the_next_one_runs_later() -> None:
    journal, clock, _ = run(World(failing=[3, 4, 9]))
    assert len(journal.entries) == 17
    assert [note.event for note in journal.notes] == ["step-failed"] * 3
    assert "OSError: the driver does not answer (2 in a row); next step in 4 s" in journal.notes[1].text
    assert clock.slept_s[3:6] == [2.0, 4.0, 1.0], "longer each time, and as usual after a step that went well"


def test_only_a_persistent_failure_ends_control_and_everything_is_turned_back() -> None:
    world = World(failing=range(5, 1000))
    journal, clock = MemoryJournal(), Ticking(100)
    with pytest.raises(OSError, match="does not answer"):
        Runner(world, Controller(POLICY), clock, journal, journal).run()
    assert world.looks == 4 + MOST_FAILURES
    assert world.released == 1
    assert "control ends" in journal.notes[-1].text
    assert max(clock.slept_s) <= 60.0


def test_what_was_turned_is_turned_back_and_no_longer_asked_for() -> None:
    world = World()
    _, _, controller = run(world)
    assert world.targets[-1].executors == 2, "the level is asked for at every tick"
    assert world.released == 1
    assert controller.knowledge.targets == Targets()
    recommending = World()
    run(recommending, policy=POLICY.model_copy(update={"mode": Mode.RECOMMEND}))
    assert (recommending.targets, recommending.released) == ([], 0)


def test_what_the_world_refuses_is_not_asked_for_again_by_itself() -> None:
    world = World(refuses=True)
    journal, _, controller = run(world, ticks=3)
    assert controller.knowledge.targets.executors is None
    decided = [entry.decision.actions for entry in journal.entries if entry.decision]
    assert ScaleExecutors(2) in decided[0]


def test_a_locked_database_does_not_end_control(tmp_path: Path) -> None:
    journal, world = SqliteJournal(tmp_path / "j.db", retry_s=0.0), World()
    other = sqlite3.connect(journal.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    runner = Runner(world, Controller(POLICY), Ticking(100), journal, journal)
    for _ in range(10):
        runner.tick()
    other.execute("COMMIT")
    runner.tick()
    journal.close()
    assert len(list(read_entries(journal.path))) == 11, "what had to wait is written when it can be"


def test_a_full_disk_does_not_end_control(tmp_path: Path) -> None:
    journal, world = SqliteJournal(tmp_path / "j.db", retry_s=0.0), World()
    runner = Runner(world, Controller(POLICY), Ticking(100), journal, journal)
    runner.tick()
    journal._database.execute(f"PRAGMA max_page_count = {_pages(journal)}")  # type: ignore[union-attr]
    for _ in range(40):
        runner.tick()
    assert world.looks == 41


def _pages(journal: SqliteJournal) -> int:
    assert journal._database is not None
    return int(journal._database.execute("PRAGMA page_count").fetchone()[0])


def test_a_clock_that_is_set_back_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, world, journal = WallClock(), World(), MemoryJournal()
    real = time.time
    runner = Runner(world, Controller(POLICY.model_copy(update={"interval_s": 0.01})), clock, journal, journal)
    ticked = runner.tick

    def tick() -> None:
        ticked()
        monkeypatch.setattr(time, "time", lambda: real() - 3600.0)
        if world.looks >= 5:
            clock.stop()

    runner.tick = tick  # type: ignore[method-assign, assignment]
    began_s = time.monotonic()
    runner.run()
    assert world.looks == 5
    assert time.monotonic() - began_s < 30.0


def test_a_changed_policy_is_taken_up_live() -> None:
    found = iter([None, None, POLICY.model_copy(update={"mode": Mode.RECOMMEND})])
    world, journal = World(), MemoryJournal()
    runner = Runner(world, Controller(POLICY), Ticking(6), journal, journal, reload=lambda: next(found, None))
    runner.run()
    assert len(world.targets) == 2, "from the third tick on it only recommends"
    assert [note.text for note in journal.notes if note.event == "policy-reloaded"] == ["mode recommend"]
