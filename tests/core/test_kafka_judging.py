"""How a run of the Kafka experiment is judged: latency by row, the largest batch, and rows lost or doubled."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tidegate_lab.experiments.kafka_run import PLANS, Plan, Produced, Run, Sink, best_limit, judge

OBJECTIVE_S = 10.0


def run(
    folder: Path,
    batches: list[tuple[float, float, dict[str, int]]],
    counts: dict[str, int],
    sent: Produced,
    restarted_s: float = 0.0,
) -> Run:
    """Judge batches, each with the time of its plan and of its commit and the offsets at which it ended."""
    sink, log = Sink(folder / "sink.db"), folder / "checkpoint" / "offsets"
    log.mkdir(parents=True)
    with sqlite3.connect(folder / "sink.db") as database:
        database.executemany("INSERT INTO counts VALUES (?, ?)", counts.items())
        database.executemany(
            "INSERT INTO batches VALUES (?, ?)",
            [(batch, committed_s) for batch, (_, committed_s, _) in enumerate(batches)],
        )
    for batch, (planned_s, _, ends) in enumerate(batches):
        planned = json.dumps({"batchTimestampMs": planned_s * 1000})
        (log / str(batch)).write_text(f"v1\n{planned}\n{json.dumps({'topic': ends})}")
    return judge(Plan(objective_s=OBJECTIVE_S), sent, sink, folder / "checkpoint", restarted_s, 0)


def test_a_rows_latency_ends_when_its_batch_is_committed(tmp_path: Path) -> None:
    """Three rows arrive at 100 s, one at 109 s in the other partition, and the last at 120 s."""
    sent = Produced(5, {0: {0: 100.0, 1: 100.0, 2: 100.0, 3: 120.0}, 1: {0: 109.0}})
    batches = [(101.0, 105.0, {"0": 2, "1": 0}), (105.0, 112.0, {"0": 3, "1": 1}), (120.0, 121.0, {"0": 4, "1": 1})]
    found = run(tmp_path, batches, {str(key): 1 for key in range(5)}, sent)
    assert found.late == 1, "only the third row: 12 s; the others took 5, 5, 3 and 1 s"
    assert found.p99_s == pytest.approx(12.0, abs=0.5)
    assert (found.largest_batch_rows, found.largest_batch_s) == (2, 7.0)
    assert (found.rows_in, found.rows_lost, found.rows_doubled) == (5, 0, 0)


def test_rows_lost_and_doubled_are_counted_by_key_and_do_not_cancel(tmp_path: Path) -> None:
    sent = Produced(4, {0: dict.fromkeys(range(4), 100.0)})
    found = run(tmp_path, [(100.0, 101.0, {"0": 4})], {"0": 3, "1": 1, "2": 1}, sent)
    assert (found.rows_lost, found.rows_doubled) == (1, 2)


def test_the_time_that_the_job_was_stopped_does_not_count_for_the_batch_that_it_interrupted(tmp_path: Path) -> None:
    sent = Produced(2, {0: {0: 100.0, 1: 161.0}})
    batches = [(100.0, 164.0, {"0": 1}), (164.0, 165.0, {"0": 2})]
    found = run(tmp_path, batches, {"0": 1, "1": 1}, sent, restarted_s=160.0)
    assert found.largest_batch_s == 4.0
    assert found.late == 1, "but the row waited all the time"


def test_without_a_batch_there_is_nothing_to_judge_but_the_loss(tmp_path: Path) -> None:
    found = run(tmp_path, [], {}, Produced(3))
    assert (found.late, found.p99_s, found.largest_batch_rows, found.rows_lost) == (0, 0.0, 0, 3)


def test_the_rehearsal_has_the_same_burst_but_no_outage() -> None:
    plan = PLANS["full"]
    rehearsal = plan.rehearsal()
    assert rehearsal.stop_s == 0.0
    burst_s = plan.before_s + plan.burst_s
    assert rehearsal.end_s > burst_s
    assert rehearsal.rows_by(burst_s) == plan.rows_by(burst_s)


def test_the_fixed_limit_has_the_fewest_violations_in_the_rehearsal_and_then_the_lowest_p99() -> None:
    def rehearsed(late: int, p99_s: float) -> Run:
        return Run(late, p99_s, 100, 1.0, 1000, 0, 0, 0)

    assert best_limit({800: rehearsed(3, 9.0), 2000: rehearsed(0, 12.0), 6000: rehearsed(0, 11.0)}) == 6000
