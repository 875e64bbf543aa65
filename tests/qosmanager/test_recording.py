"""The history beside the journal, and what the control reports of its own cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.worlds import steady
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal
from tidegate.control.recording import RecordingJournal
from tidegate.control.runner import Runner
from tidegate.domain import Observation, Receipt, Targets
from tidegate.domain.policy import Policy
from tidegate.history.parquetwriter import HistoryWriter
from tidegate.history.read import read_history


class Replayed:
    """Shows recorded observations; a look takes 20 ms and a decision none."""

    def __init__(self, observations: list[Observation]) -> None:
        self._left = list(observations)
        self.time_s = 0.0

    def observe(self) -> Observation:
        self.time_s += 0.02
        return self._left.pop(0)

    def converge(self, targets: Targets) -> Receipt:
        return Receipt()

    def release(self) -> None:
        pass

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep_until(self, monotonic_s: float) -> bool:
        return True


def test_every_batch_is_in_the_history_and_every_step_in_the_journal(tmp_path: Path) -> None:
    journal = MemoryJournal()
    recording = RecordingJournal(journal, HistoryWriter(tmp_path / "history"))
    world = Replayed(steady(200, 30, executors=1))
    runner = Runner(world, Controller(Policy()), world, recording, journal)
    for _ in range(30):
        runner.tick()
    recording.close(1031.0)
    assert len(journal.entries) == 30
    (table,) = read_history(tmp_path / "history").tables
    assert table.application == "app"
    assert len(table.times_s) == 30


def test_a_history_that_cannot_be_written_is_given_up_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    journal = MemoryJournal()
    recording = RecordingJournal(journal, HistoryWriter(tmp_path / "file", flush_samples=1))
    for observation in steady(200, 3, executors=1):
        recording.record(observation, None, None)
    recording.close(1004.0)
    assert len(journal.entries) == 3
    assert [note.event for note in journal.notes] == ["history-ended"]


def test_the_cost_of_measuring_is_journalled() -> None:
    journal = MemoryJournal()
    world = Replayed(steady(200, 310, executors=1))
    runner = Runner(world, Controller(Policy()), world, journal, journal)
    for _ in range(310):
        runner.tick()
    (note,) = [note for note in journal.notes if note.event == "measuring-overhead"]
    assert "measuring takes 2.00 % of the interval and deciding 0.00 %, mean of 300 steps" in note.text
    assert runner.overhead.steps == 10
    assert runner.overhead.measuring == pytest.approx(0.02)
