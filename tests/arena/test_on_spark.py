"""The tournament on Spark, without Spark: who plays, the smallest pool, the document, the check of the output."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.cli.app import main
from tidegate.domain import InvalidInput
from tidegate_lab.arena.loads import ArenaLoad
from tidegate_lab.arena.page import write_page
from tidegate_lab.arena.play import Run
from tidegate_lab.arena.poolcourse import PoolCourse
from tidegate_lab.arena.rivals.flink import Flink
from tidegate_lab.arena.setting import Setting
from tidegate_lab.arena.sparkmeasure import Measured
from tidegate_lab.arena.sparkplan import Contestant, SparkPlan, chosen_load, chosen_names, hold_on_spark
from tidegate_lab.arena.sparkplay import RowWork
from tidegate_lab.arena.sparkprogram import SparkWishes, described
from tidegate_lab.arena.sparksim import play_simulated, summarised
from tidegate_lab.arena.standings import runs_table, worlds_table
from tidegate_lab.workloads.currency import _indices, check_bids

LOAD = ArenaLoad("short", np.array([1.0, 3.0, 2.0]), step_s=60.0, compress=6.0)
SETTING = Setting(slots_per_executor=1, peak_executors=3, most_executors=4, row_cost_s=0.0002)


class Imagined:
    """Pools of at least `needs` executors hold; controllers always do."""

    def __init__(self, needs: int) -> None:
        self.needs = needs
        self.played: list[Contestant] = []

    def play(self, contestant: Contestant, told: Callable[[float, str], None]) -> Run:
        self.played.append(contestant)
        told(0.5, "half")
        size = contestant.executors or 2
        late = 0.0 if contestant.executors is None or size >= self.needs else 0.2
        return Run(
            *(contestant.name, LOAD.name, 0, late, size * 30.0, 4.0, 1, 30.0),
            sizes=((0.0, size),),
            rows_lost=0,
            rows_doubled=0,
        )


@pytest.mark.parametrize(("needs", "tried"), [(1, [2, 1]), (2, [2, 1]), (3, [2, 3]), (4, [2, 3, 4]), (9, [2, 3, 4])])
def test_the_smallest_fixed_pool_that_holds_is_found_by_halving(needs: int, tried: list[int]) -> None:
    ground = Imagined(needs)
    tournament = hold_on_spark(SparkPlan(SETTING, LOAD, ("static-holds",)), ground)
    assert [contestant.executors for contestant in ground.played] == tried
    static, *others = tournament.runs
    assert (static.rival, static.executor_seconds) == ("static-holds", 30.0 * min(needs, 4))
    assert [run.rival for run in others] == [f"static-{size}" for size in sorted(tried)]


def test_given_sizes_are_the_only_ones_tried() -> None:
    ground = Imagined(needs=1)
    hold_on_spark(SparkPlan(SETTING, LOAD, ("static-holds", "tidegate"), sizes=(3,)), ground)
    assert ground.played == [Contestant("static-3", 3), Contestant("tidegate")]


def test_progress_never_runs_backwards_or_over() -> None:
    told: list[tuple[float, float]] = []
    plan = SparkPlan(SETTING, LOAD)
    hold_on_spark(plan, Imagined(needs=4), lambda done, total, what: told.append((done, total)))
    assert [done for done, _ in told] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert {total for _, total in told} == {7} == {plan.most_runs}


def test_the_document_has_the_form_of_the_simulated_one_and_counts_rows(tmp_path: Path) -> None:
    plan = SparkPlan(SETTING, LOAD, ("static-holds", "tidegate"))
    played = hold_on_spark(plan, Imagined(needs=3))
    tournament = type(played)(
        played.setting, played.loads, played.runs, described(plan, RowWork(0.4, 100), Measured(0.0002, 0.5, 12.0, 4.0))
    )
    write_page(tournament, tmp_path)
    document = json.loads((tmp_path / "arena.json").read_text())
    assert set(document) == {"setting", "runs", "summary"}
    assert document["setting"]["world"] == "spark"
    assert document["setting"]["compress"] == 6.0
    for run in document["runs"]:
        assert set(run) == {
            "rival", "load", "seed", "late", "executor_seconds", "p99_s", "changes", "rows_lost", "rows_doubled",
        }  # fmt: skip
    assert document["summary"]["tidegate"]["cost_vs_static"] == pytest.approx(2 / 3)
    assert runs_table(tournament).row_count == len(tournament.runs)


def test_the_same_contestants_play_in_the_simulator() -> None:
    plan = SparkPlan(SETTING, LOAD, ("static-holds", "amadeus", "flink", "tidegate"))
    runs = play_simulated(plan)
    assert tuple(run.rival for run in runs) == plan.names
    assert {run.duration_s for run in runs} == {LOAD.duration_s}
    simulated = summarised(runs)
    assert simulated["static-holds"]["cost_vs_static"] == 1.0
    played = hold_on_spark(plan, Imagined(needs=3))
    table = worlds_table(replace(played, more={"simulated": simulated}))
    assert table.row_count == len(plan.names)


def test_the_peak_keeps_its_executors_busy_at_the_measured_cost() -> None:
    wishes = SparkWishes(loads=["cosine"], peak_executors=3)
    plan = wishes.plan(Measured(row_s=0.0002, batch_s=3.0, startup_s=12.3, warmup_s=4.0))
    assert (plan.setting.max_executors, plan.setting.startup_s) == (4, 12.3)
    assert plan.setting.peak_rows_per_s == pytest.approx(
        0.9 * 3 / (0.0002 * 5 / 4)
    )  # batches of 5 s, of which tasks take 1 s to start
    assert plan.setting.executors_for(plan.setting.peak_rows_per_s) == 3


def test_the_fixed_pool_always_plays_and_unknown_rivals_never() -> None:
    assert chosen_names(["tidegate"], quick=False) == ("static-holds", "tidegate")
    with pytest.raises(InvalidInput, match="'hpa-cpu' cannot play on Spark"):
        SparkPlan(SETTING, LOAD, ("hpa-cpu",))
    with pytest.raises(InvalidInput, match="--sizes: 5 executors; there may be 1 to 4"):
        SparkPlan(SETTING, LOAD, sizes=(5,))


def test_without_the_recording_it_says_what_to_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match="give --load FILE"):
        chosen_load(None, quick=True, compress=None, step_s=None)
    with pytest.raises(InvalidInput, match="one --load at a time"):
        chosen_load(["cosine", "spikes"], quick=True, compress=None, step_s=None)


def test_flinks_times_shrink_with_the_load() -> None:
    fast = Flink.faster(30.0)
    assert (fast.settings.window_s, fast.settings.catch_up_s, fast.period_s) == (30.0, 60.0, 2.0)
    assert (fast.settings.utilisation, Flink().period_s) == (0.7, 60.0)


def test_lost_and_doubled_bids_are_counted() -> None:
    bids = [row for row in range(100) if row % 50 >= 4]
    assert check_bids(np.array(bids), rows=100).rows_out == 92
    broken = np.array([*bids[1:], bids[5], bids[6], 120])  # one lost, two twice, one that never arrived
    found = check_bids(broken, rows=100)
    assert (found.rows_lost, found.rows_doubled) == (1, 3)
    assert check_bids(np.zeros(0, dtype=np.int64), rows=4).rows_lost == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--world", "spark", "--seeds", "2"], "--seeds has a meaning only with --world sim"),
        (["--world", "spark", "--query", "q5"], "--query has a meaning only with --world sim"),
        (["--world", "spark", "--sizes", "two"], "write numbers separated by commas"),
        (["--world", "spark", "--cpus", "0"], "--cpus: an executor gets"),
        (["--cpus", "0.4"], "--cpus has a meaning only with --world spark"),
    ],
)
def test_options_of_the_other_world_are_refused_in_one_line(
    given: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tidegate", "arena", *given])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_the_index_of_a_bid_is_read_from_its_time(tmp_path: Path) -> None:
    indices = np.arange(0, 5000)
    times_us = (indices / 1000 * 1e6).astype(np.int64) - indices % 2  # as Spark rounds: sometimes a microsecond early
    table = pa.table({"time": pa.array(times_us).cast(pa.timestamp("us", tz="UTC"))})
    pq.write_table(table, tmp_path / "part.parquet")
    assert (_indices(str(tmp_path / "part.parquet")) == indices).all()


def test_a_wish_that_is_withdrawn_at_once_is_no_change_of_the_pool() -> None:
    course = PoolCourse(end_s=10.0)
    for time_s, registered, requested in ((0.0, 2, 2), (1.0, 2, 1), (2.0, 2, 2), (3.0, 2, 4), (6.0, 4, 1)):
        course.add(time_s, registered, requested)  # as dynamic allocation does between two batches
    assert [change.executors for change in course.changes] == [4]
    assert course.executor_seconds == 2 * 3 + 4 * 7
