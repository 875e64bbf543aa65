"""What panels say must be what the journal says, however it is read."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from statistics import fmean

import pytest

from tests.view.worlds import EVERY_S, NAMES, START_S, record, steps
from tidegate.control.journal import SqliteJournal
from tidegate.control.journal.summary import COVERED, TABLES
from tidegate.domain import InvalidInput
from tidegate.view import now, ranges
from tidegate.view.book import Book, find_journals


@pytest.fixture(scope="module")
def book(journal: Path) -> Book:
    return Book(journal)


def span(book: Book) -> tuple[float, float]:
    found = book.span_s
    assert found is not None
    return found


def test_the_overview_tells_the_newest_step(book: Book) -> None:
    seen = now.overview(book)
    last = steps(260)[-1]
    assert (seen.steps, seen.last_s, seen.step) == (260, last[0].time_s, 260)
    orders = seen.applications[0]
    batch = last[0].applications[0].batches[0]
    assert batch.latency is not None
    assert (orders.application, orders.latency_p99_s, orders.backlog_rows) == ("orders", batch.latency.p99_s, 100)
    assert (orders.objective_s, orders.budget_left, orders.watermark_gap_s) == (4.0, 0.75, 12.5)
    assert seen.pool is not None
    assert (seen.pool.least, seen.pool.most, seen.mode) == (1, 6, "apply")
    assert seen.notes[0].event == "control-started"


def test_single_steps_are_shown_in_a_short_range(book: Book) -> None:
    start_s, end_s = span(book)
    found = ranges.series(book, "orders", start_s, end_s, 2000)
    rows = [observation.applications[0].batches[0].rows for observation, _, _ in steps(260)]
    assert found.columns["rows"] == rows
    assert found.columns["registered"] == [observation.pool.registered for observation, _, _ in steps(260)]


def test_minutes_and_single_steps_agree(book: Book) -> None:
    start_s, end_s = span(book)
    fine = ranges.series(book, "orders", start_s, end_s, 600)
    coarse = ranges.series(book, "orders", start_s - 4000, end_s, 600)  # too long for single steps
    assert sum(value or 0 for value in coarse.columns["rows"]) == sum(value or 0 for value in fine.columns["rows"])
    p99 = [max(value for value in found.columns["p99_s"] if value) for found in (fine, coarse)]
    assert p99[0] == p99[1]
    cost = [ranges.cost(book, from_s, end_s) for from_s in (start_s, start_s - 4000)]
    assert cost[0].executor_hours == pytest.approx(cost[1].executor_hours, rel=0.01)
    assert cost[0].executor_hours == pytest.approx(
        sum(observation.pool.registered for observation, _, _ in steps(260)) * EVERY_S / 3600, rel=0.01
    )


def test_a_journal_without_sums_shows_the_same(journal: Path, book: Book, tmp_path: Path) -> None:
    copy = shutil.copy(journal, tmp_path / "old.db")
    with sqlite3.connect(copy) as database:
        for table in (*TABLES, COVERED):
            database.execute(f"DROP TABLE {table}")
    old = Book(copy)
    assert old.indexed < 1
    assert old.index(60.0) == 1
    start_s, end_s = span(book)
    for from_s in (start_s, start_s - 4000):
        assert ranges.series(old, "orders", from_s, end_s, 300) == ranges.series(book, "orders", from_s, end_s, 300)
        assert ranges.timeline(old, from_s, end_s) == ranges.timeline(book, from_s, end_s)
    assert old.counts == book.counts


def test_steps_are_counted_once_while_the_journal_grows_and_is_sealed(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "growing.db")
    some = steps(260)
    record(journal, some[:10])
    book = Book(journal.path)
    for first in range(10, 260, 25):
        record(journal, some[first : first + 25])
        book.poll()
    journal.close()
    book.poll()
    start_s, end_s = span(book)
    for from_s in (start_s, start_s - 4000):
        rows = ranges.series(book, "orders", from_s, end_s, 400).columns["rows"]
        assert sum(value or 0 for value in rows) == sum(o.applications[0].batches[0].rows for o, _, _ in some)
        cost = ranges.cost(book, from_s, end_s)
        executor_s = sum(observation.pool.registered for observation, _, _ in some) * EVERY_S
        assert cost.executor_hours == pytest.approx(executor_s / 3600, rel=0.005)
    finished = Book(journal.path)
    assert book.counts == finished.counts
    assert [one.number for one in ranges.timeline(book, start_s, end_s) if one.kind == "acted"] == [
        one.number for one in ranges.timeline(finished, start_s, end_s) if one.kind == "acted"
    ]


def test_the_timeline_tells_deeds_and_holds(book: Book) -> None:
    found = ranges.timeline(book, *span(book))
    acted = [one for one in found if one.kind == "acted"]
    assert [one.title for one in acted][:2] == ["executors → 5", "executors → 2"]
    guarded = [one for one in found if one.guards]
    assert {tuple(one.guards) for one in guarded} == {("cool-down",)}
    assert sum(one.steps for one in found) == 260


def test_a_decision_has_its_reasons_prediction_and_outcome(book: Book) -> None:
    grown = next(one for one in ranges.timeline(book, *span(book)) if one.kind == "acted")
    detail = ranges.decision(book, grown.number)
    assert detail is not None
    assert detail.decision["reasons"][0]["code"] == "grow"
    assert detail.decision["predictions"][0]["p99_s"] == 1.5
    assert [one["p99_s"] for one in detail.outcomes] == [1.4]
    assert ranges.decision(book, 99_999) is None


def test_operators_have_loads_that_add_up(book: Book) -> None:
    start_s, end_s = span(book)
    found = ranges.operators(book, "orders", start_s, end_s)
    assert [one.operator for one in found] == ["read", "count"]
    busy_s = sum(observation.applications[0].batches[0].busy_s or 0 for observation, _, _ in steps(260))
    assert sum(one.busy_slots for one in found) == pytest.approx(busy_s / (end_s - start_s), rel=0.01)
    assert found[1].state_rows == 1000 + 10 * 259


def test_the_fixed_pool_is_what_the_busiest_minute_needs(book: Book) -> None:
    found = ranges.cost(book, *span(book))
    needed = sum(one.needed_slots or 0 for one in steps(260)[30][1].assessments)
    assert needed == pytest.approx(3600 * 0.008 / EVERY_S + 1 + 50 * 0.008 / EVERY_S + 1)
    assert (found.fixed_executors, found.price_per_hour) == (2, 0.5)
    assert found.saved is not None
    mean = fmean(observation.pool.registered for observation, _, _ in steps(260))
    assert found.saved == pytest.approx(1 - mean / 2, abs=0.02)


def test_lag_is_told_by_partition(book: Book) -> None:
    assert [(one.partition, one.rows) for one in now.lag_now(book, "orders")] == [("events-1", 40), ("events-0", 7)]


def test_folders_are_searched_for_journals(journal: Path, tmp_path: Path) -> None:
    shutil.copy(journal, tmp_path / "a.db")
    (tmp_path / "other.db").write_bytes(b"no journal")
    assert find_journals([tmp_path]) == [tmp_path / "a.db"]
    (tmp_path / "a.db").unlink()
    with pytest.raises(InvalidInput, match="contains no journal"):
        find_journals([tmp_path])


def test_an_empty_journal_has_nothing_to_show(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "new.db").close()
    book = Book(tmp_path / "new.db")
    seen = now.overview(book)
    assert (seen.applications, seen.last_s, seen.pool) == ([], None, None)
    assert ranges.timeline(book, START_S, START_S + 60) == []
    assert ranges.series(book, NAMES[0], START_S, START_S + 60, 10).time_s == []


def test_state_that_moves_in_one_decision_is_told_once() -> None:
    moves = [{"kind": "move-state", "application": "words", "partition": one, "executor": "1"} for one in range(40)]
    grow = {"kind": "scale-executors", "target": 3, "outcome": "done"}
    assert list(ranges._titles([grow, *moves])) == ["executors → 3", "words: moving 40 state partitions"]
