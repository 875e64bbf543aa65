"""GSM and DPIP against the same work done without Spark."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import wait_for_batches
from tidegate.adapters.spark.attach import Gate
from tidegate.load import Constant, RandomText, RecordedRides, Rides
from tidegate.load.rides import FIELDS
from tidegate_lab.workloads.dpip import Dpip, breaks, cleaned, fares, parsed, zone_table
from tidegate_lab.workloads.gsm import PATTERN, Gsm, grep, md5, sort

ROWS = 300
RAW = """tpep_pickup_datetime,tpep_dropoff_datetime,PULocationID,DOLocationID,passenger_count,\
trip_distance,payment_type,fare_amount,tip_amount,total_amount
2019-03-02 08:00:00,2019-03-02 08:10:00,7,9,1,1.5,1,7.0,2.0,9.0
2019-03-01 08:00:00,2019-03-01 08:10:00,9,7,,0.5,2,5.0,0.0,5.0
"""


def frame(spark: SparkSession, texts: list[str]) -> DataFrame:
    rows = [(index, None, text) for index, text in enumerate(texts)]
    return spark.createDataFrame(rows, "index BIGINT, event_time TIMESTAMP, value STRING")


def test_gsm_does_what_its_names_say(spark: SparkSession) -> None:
    texts = RandomText().texts(0, ROWS)
    rows = frame(spark, texts)
    found = {row["index"]: row.matches for row in grep(rows, rounds=2).collect()}
    expected = {index: 2 * len(re.findall(PATTERN, text)) for index, text in enumerate(texts)}
    assert found == {index: count for index, count in expected.items() if count}
    assert found, "a pattern that nothing matches tests nothing"
    ordered = {row["index"]: row.words for row in sort(rows, rounds=2).collect()}
    assert ordered == {index: sorted(2 * text.split()) for index, text in enumerate(texts)}
    digests = {row["index"]: row.digest for row in md5(rows, rounds=3).collect()}
    for index, text in enumerate(texts):
        for _ in range(3):
            text = hashlib.md5(text.encode()).hexdigest()
        assert digests[index] == text


def test_breaks_are_what_rides_leave_of_a_drivers_window(spark: SparkSession) -> None:
    texts = Rides(drivers=5).texts(0, ROWS)
    rides: dict[tuple[str, int], list[tuple[datetime, datetime]]] = defaultdict(list)
    for text in texts:
        fields = dict(zip(FIELDS.split(","), text.split(","), strict=True))
        if float(fields["distance"]) > 0:
            pickup, dropoff = (datetime.fromisoformat(fields[name]) for name in ("pickup", "dropoff"))
            window = int((pickup - datetime(1970, 1, 1)).total_seconds()) // (8 * 3600)
            rides[fields["driver"], window].append((pickup, dropoff))
    expected = {}
    for (driver, window), taken in rides.items():
        span = max(end for _, end in taken) - min(begin for begin, _ in taken)
        driven_s = sum((end - begin).total_seconds() for begin, end in taken)
        pseudonym = hashlib.md5(driver.encode()).hexdigest()
        expected[pseudonym, window] = (len(taken), span.total_seconds() - driven_s)
    assert any(break_s > 0 for _, break_s in expected.values())
    table = breaks(cleaned(parsed(frame(spark, texts)))).selectExpr(
        "driver", "unix_timestamp(window.start) div 28800 AS number", "rides", "break_s"
    )
    assert {(row.driver, row.number): (row.rides, row.break_s) for row in table.collect()} == expected


def test_broken_lines_are_cleaned_away_and_fares_add_up(spark: SparkSession) -> None:
    texts = Rides().texts(0, ROWS)
    good = [text for text in texts if float(text.split(",")[6]) > 0]
    assert 0 < len(good) < ROWS
    rows = frame(spark, [*texts, "no ride at all", "d1,2019-03-01 10:00:00,never,1,2,1,1.0,1,3.0,0.0,3.0"])
    table = fares(cleaned(parsed(rows)), zone_table(spark, None)).collect()
    assert sum(row.rides for row in table) == len(good)
    assert sum(row.takings for row in table) == pytest.approx(sum(float(text.split(",")[10]) for text in good))


def test_recorded_rides_go_on_month_after_month(tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text(RAW)
    lines = RecordedRides(str(path), drivers=2).texts(0, 3)
    assert lines[0] == "d0000,2019-03-01 08:00:00,2019-03-01 08:10:00,9,7,,0.5,2,5.0,0.0,5.0"
    assert [line.split(",")[1] for line in lines] == sorted(line.split(",")[1] for line in lines)
    assert lines[2].startswith("d0000,2019-04-01 08:00:00")


def test_both_run_as_streams(gate: Gate) -> None:
    gate.start("md5", Gsm("md5", Constant(rate=200), rows=400, trigger_s=0.5).build)
    gate.start("breaks", Dpip("breaks", Constant(rate=200), rows=400, trigger_s=0.5).build)
    for name in ("md5", "breaks"):
        seen = wait_for_batches(gate, name, 1)
        assert sum(batch.rows for batch in seen) > 0
