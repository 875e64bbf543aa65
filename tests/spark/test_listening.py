"""The embedded cluster listens on the loopback interface alone: driver, master, workers and executors."""

from __future__ import annotations

from contextlib import suppress

import psutil
from pyspark.sql import SparkSession


def test_nothing_listens_outside_of_this_machine(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10  # executors are there
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    heard: set[str] = set()
    for process in (jvm, *jvm.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # workers come and go
            heard |= {each.laddr.ip for each in process.net_connections("tcp") if each.status == "LISTEN"}
    assert heard
    assert heard <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
