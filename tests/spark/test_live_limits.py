"""Limits, pauses and intervals of plain running queries, and the traps of setting them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.spark.conftest import batches, input_rows, samples, wait_for, wait_for_batches
from tidegate.adapters.spark.attach import Gate, attach
from tidegate.control.journal import read_notes
from tidegate.domain import Outcome, Receipt, SetAdmission, SetBatchInterval, Targets

if TYPE_CHECKING:
    import pandas as pd

ROWS_PER_FILE = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.mkdir()
    return path


def add_files(folder: Path, count: int) -> None:
    """All at once, as far as that can be: a query may still see only the first of them."""
    first = len(list(folder.glob("*.txt")))
    for number in range(first, first + count):
        (folder / f".{number}").write_text("".join(f"{number} {row}\n" for row in range(ROWS_PER_FILE)))
    for number in range(first, first + count):
        (folder / f".{number}").rename(folder / f"{number:05}.txt")


def planned(checkpoint: Path) -> int:
    """The newest batch in the offset log."""
    return max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())


def lines(spark: SparkSession, folder: Path, **options: object) -> DataFrame:
    return spark.readStream.options(**{name: str(value) for name, value in options.items()}).text(str(folder))


def start(frame: DataFrame, name: str, checkpoint: Path, **trigger: object) -> StreamingQuery:
    writer = frame.writeStream.format("noop").queryName(name).option("checkpointLocation", str(checkpoint / name))
    return writer.trigger(**(trigger or {"processingTime": "300 milliseconds"})).start()  # type: ignore[arg-type]


def turn(gate: Gate, *actions: SetAdmission | SetBatchInterval) -> Receipt:
    gate.settle(60.0)
    return gate.cluster.converge(Targets().after(actions))


def test_a_plain_file_query_is_limited_paused_and_released(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path
) -> None:
    """Files are limited in files: rows would end the query. The user's own limit is never widened."""
    add_files(folder, 3)
    query = start(lines(spark, folder, maxFilesPerTrigger=8), "files", tmp_path)
    wait_for_batches(gate, "files", 1)
    answer = turn(gate, SetAdmission("files", 2 * ROWS_PER_FILE)).actions[0]
    assert (answer.outcome, answer.note) == (Outcome.DONE, "live, without a restart")
    add_files(folder, 6)
    wait_for(lambda: sum(input_rows(query)) == 90, "nine files")
    assert max(input_rows(query)[1:]) == 20, "two files a batch, by the rows that a file was seen to hold"
    wait_for(lambda: samples(gate, "files")[-1].admission_rows == 20, "the limit to be seen")
    gate.cluster.limits.pause("files", "test", 600.0)
    assert wait_for(lambda: gate.cluster.limits.quiet("files"), "quiet")
    batch = planned(tmp_path / "files")
    add_files(folder, 5)
    time.sleep(1.0)  # the time of three triggers, in which nothing may happen
    assert planned(tmp_path / "files") == batch, "nothing is taken in while it is paused"
    gate.cluster.limits.resume("files", "test")
    turn(gate, SetAdmission("files", 1000))
    add_files(folder, 20)
    wait_for(lambda: sum(input_rows(query)) == 340, "all files")
    assert max(input_rows(query)) == 80, "the user's own limit of eight files holds"
    assert query.isActive


def test_a_source_that_is_limited_in_bytes_is_never_limited_but_can_be_paused(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path
) -> None:
    """Two of the larger files fit into the user's limit. One of them, or a file of our limit, may hold any number."""
    add_files(folder, 20)
    gate.cluster.limits.limit("bytes", ROWS_PER_FILE)
    gate.cluster.limits.bound_first_batches()
    query = start(lines(spark, folder, maxBytesPerTrigger=100), "bytes", tmp_path)
    wait_for(lambda: sum(input_rows(query)) == 200, "all files")
    assert set(input_rows(query)) == {2 * ROWS_PER_FILE}, "the user's own limit, whatever was asked for"
    (answer,) = turn(gate, SetAdmission("bytes", ROWS_PER_FILE)).actions
    assert (answer.outcome, "maxBytesPerTrigger" in answer.note) == (Outcome.REFUSED, True)
    told = next(one for one in gate.capabilities() if one.actuator == "admission of bytes")
    assert (told.able, told.reason) == (False, answer.note)
    assert not samples(gate, "bytes")[-1].gated
    gate.cluster.limits.pause("bytes", "test", 600.0)
    assert wait_for(lambda: gate.cluster.limits.quiet("bytes"), "quiet")
    batch = planned(tmp_path / "bytes")
    add_files(folder, 5)
    time.sleep(1.0)
    assert planned(tmp_path / "bytes") == batch, "nothing is taken in while it is paused"
    gate.cluster.limits.resume("bytes", "test")
    wait_for(lambda: sum(input_rows(query)) == 250, "the rest")
    assert turn(gate, SetBatchInterval("bytes", 1.0)).actions[0].outcome is Outcome.DONE


def watermarked(rows: DataFrame) -> DataFrame:
    """Windows of a second. All but the newest are complete when the watermark has moved."""
    timed = rows.select(F.timestamp_seconds(F.split("value", " ")[1].cast("long")).alias("at"))
    return timed.withWatermark("at", "1 second").groupBy(F.window("at", "1 second")).count().select("count")


def timed_out(rows: DataFrame) -> DataFrame:
    """One row for each key that was silent for a second."""

    def close(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"count": [1]})
        else:
            state.update((sum(map(len, frames)),))
            state.setTimeoutDuration(1000)

    timeout = GroupStateTimeout.ProcessingTimeTimeout
    return rows.groupBy("value").applyInPandasWithState(close, "count LONG", "rows LONG", "append", timeout)


@pytest.mark.parametrize(("build", "results"), [(watermarked, 8), (timed_out, ROWS_PER_FILE)])
def test_a_batch_without_data_runs_while_its_source_is_paused(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path, build: Callable[[DataFrame], DataFrame], results: int
) -> None:
    """Its first batch waits until it is paused, so the results can only come from a batch without data."""
    go, name = tmp_path / "go", build.__name__

    def held(text: str) -> str:
        while not go.exists():
            time.sleep(0.05)
        return text

    add_files(folder, 1)
    frame = build(lines(spark, folder).select(F.udf(held)("value").alias("value")))
    writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path / name)).trigger(processingTime="300 milliseconds").start()
    try:
        wait_for(lambda: samples(gate, name) and samples(gate, name)[-1].running_batch, "a batch under way")
        gate.cluster.limits.pause(name, "test", 600.0)
    finally:
        go.touch()
    wait_for(lambda: spark.table(name).count() == results, "the results of a batch without data", 60.0)
    assert planned(tmp_path / name) > 0
    add_files(folder, 3)
    time.sleep(1.0)
    assert sum(input_rows(query)) == ROWS_PER_FILE, "it is still paused"
    gate.cluster.limits.resume(name, "test")
    wait_for(lambda: sum(input_rows(query)) == 4 * ROWS_PER_FILE, "the other files")


def test_limits_pauses_and_intervals_disappear_with_their_controller(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_files(folder, 1)
    query, paused = (start(lines(spark, folder), name, tmp_path) for name in ("leased", "paused"))
    for name in ("leased", "paused"):
        wait_for_batches(gate, name, 1)
    knobs = SetAdmission("leased", ROWS_PER_FILE), SetBatchInterval("leased", 0.5)
    turn(gate, *knobs)
    gate.cluster.limits.pause("paused", "test", 300.0)
    add_files(folder, 2)
    wait_for(lambda: input_rows(query) == [10, 10, 10], "batches of one file")
    assert sum(input_rows(paused)) == 10
    monkeypatch.setattr("tidegate.adapters.spark.limits.LEASE_S", 2.0)
    turn(gate, *knobs)  # renewed for the last time
    wait_for(lambda: samples(gate, "leased")[-1].admission_rows is None, "the end of the lease")
    assert samples(gate, "leased")[-1].interval_s == 0.3, "the user's own interval"
    add_files(folder, 4)
    wait_for(lambda: sum(input_rows(query)) == sum(input_rows(paused)) == 70, "the rest")
    assert max(input_rows(query)) > 10, "nobody renewed the lease"


def test_a_limit_holds_for_the_next_run_from_its_first_batch_on(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path
) -> None:
    add_files(folder, 2)
    query = start(lines(spark, folder), "again", tmp_path)
    wait_for_batches(gate, "again", 1)
    turn(gate, SetAdmission("again", ROWS_PER_FILE))
    query.stop()
    for _ in range(3):
        add_files(folder, 2)
        query = start(lines(spark, folder), "again", tmp_path)
        wait_for(lambda query=query: input_rows(query), "a batch of the new run")
        assert input_rows(query)[0] == ROWS_PER_FILE
        query.stop()


def test_the_first_batch_is_bounded_where_the_control_acts(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    add_files(folder, 40)
    policy = {"interval_s": 0.5, "executors": {"max": 1}, "journal": {"path": str(tmp_path / "gate.db")}}
    with attach(spark, policy):
        query = start(lines(spark, folder), "outage", tmp_path)
        wait_for(lambda: input_rows(query), "a batch")
        assert input_rows(query)[0] <= 100, "a few files, not the whole backlog"
        wait_for(lambda: sum(input_rows(query)) == 400, "the backlog")


def test_queries_that_end_by_themselves_are_never_touched(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path
) -> None:
    """A pause would end them early; the limit must not reach them though it is asked for by name."""
    add_files(folder, 4)
    gate.cluster.limits.limit("bounded", ROWS_PER_FILE)
    gate.cluster.limits.pause("bounded", "test", 60.0)
    for number, trigger in enumerate(({"availableNow": True}, {"once": True})):
        query = start(lines(spark, folder), "bounded", tmp_path / str(number), **trigger)
        assert query.awaitTermination(300)
        assert input_rows(query) == [40]


def test_process_all_available_waits_for_all_rows(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path
) -> None:
    """Also while it is paused, however often it triggers: an empty batch must not pass for the end of the rows."""
    add_files(folder, 6)
    query = start(lines(spark, folder), "awaited", tmp_path, processingTime="0 seconds")
    wait_for_batches(gate, "awaited", 1)
    turn(gate, SetAdmission("awaited", ROWS_PER_FILE))
    for files in range(8, 18, 2):
        gate.cluster.limits.pause("awaited", "test", 600.0)
        wait_for(lambda: gate.cluster.limits.quiet("awaited"), "quiet")
        add_files(folder, 2)
        query.processAllAvailable()
        assert sum(input_rows(query)) == files * ROWS_PER_FILE
    gate.settle(60.0)
    wait_for(lambda: samples(gate, "awaited")[-1].admission_rows is None, "the pause, now that the waiter has left")
    wait_for(lambda: gate.cluster.limits.quiet("awaited"), "quiet")
    batch = planned(tmp_path / "awaited")
    add_files(folder, 1)
    time.sleep(1.0)
    assert planned(tmp_path / "awaited") == batch, "it is paused again when nobody waits"


def test_the_interval_changes_while_the_query_runs(
    spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path
) -> None:
    add_files(folder, 200)
    query = start(lines(spark, folder, maxFilesPerTrigger=1), "slower", tmp_path)
    wait_for_batches(gate, "slower", 2)
    run_id = query.runId
    assert turn(gate, SetBatchInterval("slower", 2.0)).actions[0].outcome is Outcome.DONE
    wait_for(lambda: samples(gate, "slower")[-1].interval_s == 2.0, "the interval")
    count = len(batches(gate, "slower"))
    wait_for(lambda: len(batches(gate, "slower")) >= count + 5, "five more batches")
    # Triggers are due at multiples of the interval. One may come late, and the next in time.
    started = [batch.started_s for batch in batches(gate, "slower")][-4:]
    assert started[3] - started[0] > 2 * 2.0
    assert query.runId == run_id
    gate.cluster.limits.release()
    wait_for(lambda: samples(gate, "slower")[-1].interval_s == 0.3, "the user's own interval")


def test_what_cannot_be_limited_says_why(spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path) -> None:
    add_files(folder, 1)
    start(spark.readStream.format("rate").load(), "rate", tmp_path)
    start(lines(spark, folder, latestFirst=True), "newest", tmp_path)
    asynchronous = (
        lines(spark, folder).writeStream.format("noop").queryName("hasty")
        .option("checkpointLocation", str(tmp_path / "hasty"))
        .option("asyncProgressTrackingEnabled", "true")
    )  # fmt: skip
    asynchronous.start()
    causes = {
        "rate": "accepts no limit known to Tidegate",
        "newest": "accepts no limit known to Tidegate",
        "hasty": "asynchronously",
    }
    for name, cause in causes.items():
        wait_for_batches(gate, name, 1)
        note = wait_for(
            lambda name=name: [
                one for one in turn(gate, SetAdmission(name, 5)).actions if one.outcome is Outcome.REFUSED
            ],
            f"the refusal of {name}",
        )[0].note
        assert cause in note
    gate.cluster.limits.pause("hasty", "test", 600.0)
    add_files(folder, 1)
    wait_for_batches(gate, "hasty", 2)
    told = {one.actuator: one for one in gate.capabilities()}
    assert not any(told[f"admission of {name}"].able for name in causes)
    wait_for_batches(gate, "rate", 3)
    notes = wait_for(lambda: [note.text for note in read_notes(gate.journal.path) if "latency" in note.event], "a note")
    assert notes[0].startswith("rate: its source does not say when rows arrived")


def test_a_running_batch_is_seen_from_inside(spark: SparkSession, gate: Gate, folder: Path, tmp_path: Path) -> None:
    add_files(folder, 4)
    slow = F.udf(lambda text: time.sleep(0.25) or text)
    start(lines(spark, folder).repartition(4).select(slow("value")), "long", tmp_path)
    seen = wait_for(
        lambda: [
            sample.running_batch
            for sample in samples(gate, "long")
            if sample.running_batch and sample.running_batch.tasks_done and sample.running_batch.tasks_left
        ],
        "a batch under way",
    )[-1]
    assert not gate.cluster.limits.quiet("long", wait_s=0.0), "what was planned is not committed"
    assert (seen.held_s or 0.0) + (seen.busy_s or 0.0) > 0
    assert seen.tasks_done + seen.tasks_left >= 5
    wait_for_batches(gate, "long", 1)
    wait_for(lambda: samples(gate, "long")[-1].running_batch is None, "its end")
