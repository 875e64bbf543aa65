"""Reading: lazily, by time, with outcomes, and while somebody writes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.journal.worlds import steps, write
from tidegate.control.controller import Controller
from tidegate.control.journal import MemoryJournal, RollUp, SqliteJournal, read_entries, read_journal, reader, sealing
from tidegate.control.journal.block import read_block
from tidegate.domain import Mode
from tidegate.domain.policy import Policy


def sealed(journal: SqliteJournal) -> None:
    if journal._sealer is not None:
        journal._sealer.join()


@pytest.mark.slow
def test_recorded_observations_and_receipts_repeat_the_decisions(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    write(journal, steps(700))
    journal.close()
    controller = Controller(Policy(mode=Mode.APPLY))
    for entry in read_entries(journal.path):
        assert entry.observation is not None
        assert controller.step(entry.observation) == entry.decision


def test_a_step_that_repeats_costs_little(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    observation, decision, _ = steps(12)[-1]
    for _ in range(50):
        journal.record(observation, decision, None)
    assert journal._database is not None
    sizes = [row[0] for row in journal._database.execute("SELECT length(body) FROM tail ORDER BY id")]
    assert max(sizes[1:]) < 30


@pytest.mark.slow
def test_only_the_blocks_in_the_range_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    for first in range(0, 2400, 600):
        write(journal, steps(2400)[first : first + 600])
        sealed(journal)
    journal.close()
    read = []

    def counted(data: bytes, leave_out: str | None = None) -> list[Any]:
        read.append(data)
        return read_block(data, leave_out)

    monkeypatch.setattr(reader, "read_block", counted)
    times = [entry.time_s for entry in read_entries(journal.path, since_s=60_650.0, until_s=60_700.0)]
    assert (times[0], times[-1], len(times)) == (60_650.6, 60_699.6, 50)
    assert len(read) == 1
    entries = read_entries(journal.path)
    assert next(entries).number == 1
    assert len(read) == 2, "reading is lazy"
    assert [entry.number for entry in read_entries(journal.path, after=2398)] == [2399, 2400]


@pytest.mark.slow
def test_entries_are_complete_and_in_order_while_a_stretch_is_sealed(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    write(journal, steps(2400)[:590])
    entries = read_entries(journal.path, observations=False)
    seen = [next(entries).number for _ in range(300)]
    write(journal, steps(2400)[590:700])
    assert journal._sealer is not None
    journal._sealer.join()
    seen += [entry.number for entry in entries]
    assert seen == list(range(1, 701))


@pytest.mark.slow
def test_readers_in_other_threads_do_not_disturb_the_writer(tmp_path: Path) -> None:
    journal, counts = SqliteJournal(tmp_path / "j.db"), list[int]()
    writing = threading.Thread(target=write, args=(journal, steps(2400)))
    writing.start()
    while writing.is_alive():
        counts.append(len([entry.number for entry in read_entries(journal.path, observations=False)]))
    assert counts == sorted(counts)
    assert [entry.number for entry in read_entries(journal.path, observations=False)] == list(range(1, 2401))


@pytest.mark.slow
def test_what_came_of_a_decision_is_told_with_it(tmp_path: Path) -> None:
    memory, file = MemoryJournal(), SqliteJournal(tmp_path / "j.db")
    for journal in (memory, file):
        for step in steps(700):
            journal.record(*step)
        journal.judge(3, {"application": "pay", "p99_s": 1.5})
        journal.judge(3, {"application": 'report\'s "x"', "p99_s": None})
        journal.judge(650, {"application": "pay", "p99_s": 2.0})
    file.close()
    assert list(read_entries(file.path)) == memory.entries
    found = {entry.number: [one["p99_s"] for one in entry.outcomes] for entry in memory.entries if entry.outcomes}
    assert found == {3: [1.5, None], 650: [2.0]}


def test_an_outcome_belongs_to_the_numbering_it_was_judged_in(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    write(journal, steps(12))
    journal.judge(5, {"life": 1})
    journal.close()
    again = SqliteJournal(tmp_path / "j.db")  # knowledge was lost: steps count from 1 again
    for observation, decision, receipt in steps(12):
        again.record(replace(observation, time_s=observation.time_s + 100), decision, receipt)
    again.judge(6, {"life": 2})
    assert outcomes_of(again) == {5: ({"life": 1},), 18: ({"life": 2},)}


def test_an_outcome_from_before_there_was_one_for_each_application_is_read(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    write(journal, steps(12))
    journal.close()
    with closing(sqlite3.connect(journal.path)) as database, database:
        database.execute("INSERT INTO outcomes VALUES (0, 5, ?)", ('{"p99_s":[1.5]}',))
    assert outcomes_of(journal) == {5: ({"p99_s": [1.5]},)}
    journal.judge(5, {"p99_s": [2.0]})
    assert outcomes_of(journal) == {5: ({"p99_s": [1.5]}, {"p99_s": [2.0]})}


def outcomes_of(journal: SqliteJournal) -> dict[int, tuple[Mapping[str, Any], ...]]:
    return {entry.number: entry.outcomes for entry in read_entries(journal.path) if entry.outcomes}


@pytest.mark.slow
def test_beyond_the_retention_minutes_and_decisions_that_acted_are_left(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db", keep_days=600 / 86_400)
    for first in range(0, 2400, 600):
        write(journal, steps(2400)[first : first + 600])
        sealed(journal)
    journal.judge(next(step[1].step for step in steps(2400) if step[1].actions), {"kept": True})
    journal.close()
    found = list(read_journal(journal.path))
    minutes = [one for one in found if isinstance(one, RollUp)]
    entries = list(read_entries(journal.path))
    exact = [entry for entry in entries if entry.observation is not None]
    acted = [entry for entry in entries if entry.observation is None]
    assert len(minutes) * 60 + len(exact) == 2400
    assert len(exact) >= 1200, "the newest block, and the retention period"
    assert {minute.steps for minute in minutes} == {60}
    assert minutes[0].time_s == 60_000.0
    (application,) = minutes[0].applications
    assert application.rows == 60 * 3000
    assert application.slot_s == pytest.approx(60 * 15.0)
    assert application.arrival_rows_per_s == pytest.approx(3000, rel=0.05)
    assert application.backlog_rows == 0
    assert (minutes[0].executors_requested, minutes[0].executors_registered) == (1.0, 1.0)
    given = [step[1] for step in steps(2400) if step[1].actions and step[0].time_s < exact[0].time_s]
    assert [entry.decision for entry in acted] == given
    assert acted[0].outcomes == ({"kept": True},)
    times = [one.time_s for one in found]
    assert times == sorted(times)


@pytest.mark.slow
def test_size_has_a_limit_too(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db", max_megabytes=0.01)
    for first in range(0, 2400, 600):
        write(journal, steps(2400)[first : first + 600])
        sealed(journal)
    journal.close()
    kinds = [type(one) for one in read_journal(journal.path)]
    assert RollUp in kinds
    assert kinds.index(RollUp) < 5


@pytest.mark.slow
def test_roll_ups_count_towards_the_size_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They used to be kept for ever, so that a journal grew for as long as its job ran."""
    monkeypatch.setattr(sealing, "_ROLLED_SPAN_S", 300.0)
    journal = SqliteJournal(tmp_path / "j.db", max_megabytes=0.01)
    for first in range(0, 2400, 600):
        write(journal, steps(2400)[first : first + 600])
        sealed(journal)
    journal.judge(next(step[1].step for step in steps(2400) if step[1].actions), {"kept": True})
    journal.close()
    minutes = [one.time_s for one in read_journal(journal.path) if isinstance(one, RollUp)]
    assert 0 < len(minutes) <= 10, "of forty minutes, the newest block of roll-ups"
    with sqlite3.connect(journal.path) as database:
        assert database.execute("SELECT count(*) FROM minutes WHERE time_s < ?", (minutes[0],)).fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM minutes").fetchone() > (0,)
    exact = [entry for entry in read_entries(journal.path) if entry.observation is not None]
    assert exact[-1].observation == steps(2400)[-1][0], "the newest steps stay exact"
