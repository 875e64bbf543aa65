"""New executors rehearse before they get tasks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.adapters.spark.executors import ExecutorPoolKeeper, settle_executors
from tidegate.adapters.spark.warmup import Rehearsals, _java, warm_settings
from tidegate.adapters.spark.watcher import Watcher
from tidegate.domain.policy import Policy

MASTER = {"spark.master": "local-cluster[1,1,512]"}


@pytest.fixture(autouse=True)
def _one_executor(spark: SparkSession) -> Iterator[None]:
    settle_executors(spark, 1)
    yield
    _java(spark).withdraw()
    settle_executors(spark, 1)


def registered(spark: SparkSession) -> set[str]:
    return {executor.id for executor in Watcher(spark).executors()}


def another(spark: SparkSession) -> str:
    before = registered(spark)
    settle_executors(spark, 2)
    return (registered(spark) - before).pop()


def wait_for(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.1)


def test_a_new_executor_rehearses_before_it_gets_tasks(spark: SparkSession) -> None:
    rehearsals = Rehearsals(spark)
    rehearsals.offer_once(slots=2)
    new = another(spark)
    wait_for(lambda: _java(spark).rehearsed(new) is not None)
    assert _java(spark).rehearsed(new) == ""
    assert rehearsals.work({new})
    assert (
        spark.range(0, 100, 1, 8).select(F.udf(str.upper, "string")(F.col("id").cast("string"))).distinct().count()
        == 100
    )


def test_executors_rehearse_only_while_tidegate_controls_the_pool(spark: SparkSession) -> None:
    watcher = Watcher(spark)
    keeper = ExecutorPoolKeeper(spark.sparkContext, watcher, Policy(), may_act=True, rehearsals=Rehearsals(spark))

    def rehearses() -> bool:
        new, deadline_s = another(spark), time.monotonic() + 3.0
        while (report := _java(spark).rehearsed(new)) is None and time.monotonic() < deadline_s:
            time.sleep(0.1)  # it is sent before the executor registers, and may arrive a moment later
        settle_executors(spark, 1)
        return report is not None

    cold = keeper.sample(watcher.executors())
    assert not rehearses(), "observing changes nothing"
    keeper.take_charge()
    assert rehearses()
    assert keeper.sample(watcher.executors()).warmup_s < cold.warmup_s
    keeper.release()
    assert not rehearses()


def test_workers_do_not_search_what_the_daemon_imported_for_garbage(spark: SparkSession) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"frozen": gc.get_freeze_count()}])

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(frozen, "frozen bigint").collect()
    assert row.frozen > 10_000


def test_an_executor_whose_rehearsal_fails_starts_cold(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    rehearsals = Rehearsals(spark)
    rehearsals.offer_once(slots=1)
    impossible = spark.range(0, 1, 1, 1).select(F.raise_error(F.lit("no rehearsal today")))
    _java(spark).offer(impossible._jdf.queryExecution().toRdd(), 1)
    new = another(spark)
    wait_for(lambda: _java(spark).rehearsed(new) is not None)
    assert "no rehearsal today" in _java(spark).rehearsed(new)
    assert not rehearsals.work({new})
    assert "new executors start cold" in caplog.text
    assert spark.range(0, 100, 1, 8).count() == 100


def test_executors_map_the_class_archive(spark: SparkSession) -> None:
    executors = "CoarseGrainedExecutorBackend.*" + str(spark.sparkContext.applicationId)
    found = subprocess.run(["pgrep", "-f", executors], capture_output=True, text=True, check=True).stdout.split()
    maps = [Path(f"/proc/{one}/maps").read_text() for one in found]
    assert any("executor.jsa" in one for one in maps)


def test_plugins_and_jars_of_the_user_are_kept(spark: SparkSession) -> None:
    settings = warm_settings({**MASTER, "spark.plugins": "their.Plugin", "spark.jars": "their.jar"})
    assert settings["spark.plugins"] == "their.Plugin,tidegate.WarmUp"
    assert settings["spark.jars"].startswith("their.jar,")


def test_jars_that_spark_submit_resolved_are_kept(tmp_path: Path) -> None:
    """They are not among the builder's options, and what the builder sets replaces them."""
    jar = tmp_path / "submitted.jar"
    zipfile.ZipFile(jar, "w").close()
    script = """
from pyspark.sql import SparkSession
from tidegate.adapters.spark.embedded import prepare_start
builder = SparkSession.builder.master("local-cluster[1,1,512]")
prepare_start(builder)
print("JARS", builder._options["spark.jars"])
"""
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jar} pyspark-shell"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("JARS")), done.stderr[-2000:])
    first, second = line.removeprefix("JARS ").split(",")
    assert first.endswith("submitted.jar")
    assert "warm-up" in second


def test_a_local_master_has_nothing_to_warm(spark: SparkSession) -> None:
    assert warm_settings({"spark.master": "local[2]"}) == {}
