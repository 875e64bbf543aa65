"""The journal: what is written reads back, after a crash too; modes are enforced in one place."""

import sqlite3
from pathlib import Path

import pytest

from tests.core.worlds import steady
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal, SqliteJournal, read_entries, read_notes
from tidegate.control.knowledge import Knowledge
from tidegate.control.runner import KNOWLEDGE, Runner
from tidegate.domain import InvalidInput, Mode, Observation, Receipt, Targets
from tidegate.domain.arrayjson import pack
from tidegate.domain.policy import Policy


class Replayed:
    """A world that plays recorded observations and counts what is asked of it."""

    def __init__(self, observations: list[Observation]) -> None:
        self._left = list(observations)
        self.asked: list[Targets] = []
        self.released = 0

    def observe(self) -> Observation:
        return self._left.pop(0)

    def converge(self, targets: Targets) -> Receipt:
        self.asked.append(targets)
        return Receipt()

    def release(self) -> None:
        self.released += 1


class Ticking:
    """A clock that stands still and allows a number of ticks."""

    def __init__(self, ticks: int) -> None:
        self._left = ticks

    def now_s(self) -> float:
        return 0.0

    def monotonic_s(self) -> float:
        return 0.0

    def sleep_until(self, monotonic_s: float) -> bool:
        self._left -= 1
        return self._left >= 0


def played(
    mode: Mode, journal: SqliteJournal | MemoryJournal, rows: int = 3000, steps: int = 12, most: int = 4
) -> Replayed:
    world = Replayed(steady(rows, steps, executors=1))
    saved = journal.load_blob(KNOWLEDGE)
    policy = Policy.model_validate({"mode": mode, "executors": {"max": most}})
    controller = Controller(policy, Knowledge.from_bytes(saved) if saved else None)
    Runner(world, controller, Ticking(steps), journal, journal).run()
    return world


@pytest.mark.parametrize(
    ("mode", "decides", "acts"), [(Mode.OFF, False, False), (Mode.RECOMMEND, True, False), (Mode.APPLY, True, True)]
)
def test_the_mode_says_how_far_it_goes(mode: Mode, decides: bool, acts: bool) -> None:
    journal = MemoryJournal()
    world = played(mode, journal)
    assert len(journal.entries) == 12
    assert any(entry.decision and entry.decision.actions for entry in journal.entries) == decides
    assert bool(world.asked) == acts
    assert world.released == acts, "what was turned is turned back"


def test_what_is_recorded_reads_back(tmp_path: Path) -> None:
    memory, file = MemoryJournal(), SqliteJournal(tmp_path / "deep" / "j.db")
    played(Mode.APPLY, memory)
    played(Mode.APPLY, file)
    file.note(5.0, "control-ended", "stopped")
    assert list(read_entries(file.path)) == memory.entries
    assert read_notes(file.path)[-1].text == "stopped"
    quick = list(read_entries(file.path, observations=False))
    assert [entry.decision for entry in quick] == [entry.decision for entry in memory.entries]
    assert all(entry.observation is None for entry in quick)


def test_knowledge_survives_without_closing(tmp_path: Path) -> None:
    first = SqliteJournal(tmp_path / "j.db")
    played(Mode.APPLY, first)
    saved = SqliteJournal(tmp_path / "j.db").load_blob(KNOWLEDGE)
    again = Knowledge.from_bytes(saved or b"")
    assert again is not None
    assert again.evaluation.step == 12


@pytest.mark.parametrize("body", [b"", b'{"step": "many"}', pack({"version": 1}), pack([])])
def test_knowledge_of_another_form_is_dropped_not_fatal(body: bytes) -> None:
    assert Knowledge.from_bytes(body) is None


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, for sure" * 100)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.commit()
    for name, message in [("none.db", "no such file"), ("text.db", "not a Tidegate"), ("other.db", "not a Tidegate")]:
        with pytest.raises(InvalidInput, match=message):
            list(read_entries(tmp_path / name))
    with pytest.raises(InvalidInput, match="cannot be used"):
        SqliteJournal(tmp_path / "text.db")
