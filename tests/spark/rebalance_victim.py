"""A process for the test that kills: it picks a query up where the last one left it, checks it, and rebalances it.

python rebalance_victim.py FOLDER STEP PARTITIONS    STEP: where to die; "none" lives on and checks the counts
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tidegate.load import Constant
from tidegate.spark.embedded import local_session
from tidegate.spark.queries import RestartableQuery
from tidegate.spark.rebalance import Transaction
from tidegate.spark.settings import Settings
from tidegate.spark.source import TidegateSource
from tidegate.workloads.wordcount import WordCount, check_rows, expected_counts, state_counts


def main(folder: Path, die_at: str, partitions: int) -> None:
    spark = local_session("victim", slots=2, memory_mb=1024)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(TidegateSource)
    job = WordCount(Constant(rate=300), lookup_s=0.0, lookup_tasks=1, count_tasks=2, trigger_s=0.5)
    query = RestartableQuery(
        spark, job.build, Settings("walked", gate=str(folder / "gate.json"), checkpoint=str(folder / "checkpoint"))
    )
    wait_for_batches(query, 2)

    def told(transaction: Transaction) -> None:
        if transaction.step.value == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if die_at != "none":
        settings = query.settings.with_parallelism("count", partitions).with_parallelism("lookup", partitions)
        query.rebalance(settings, partitions, told)
        raise SystemExit(f"{die_at} was never reached")
    query.drain()
    if query.query.exception() is not None:
        raise SystemExit(str(query.query.exception()))
    query.finish_pending()
    found = state_counts(spark, query.settings.checkpoint)
    rows = sum(rows for _, rows, _ in found.values())
    check = check_rows(found, expected_counts(rows))
    print(f"rows {check.rows_out} lost {check.rows_lost} doubled {check.rows_doubled}")
    spark.stop()


def wait_for_batches(query: RestartableQuery, count: int) -> None:
    deadline_s = time.monotonic() + 120
    while sum("addBatch" in report["durationMs"] for report in query.query.recentProgress) < count:
        if query.query.exception() is not None:
            raise SystemExit(str(query.query.exception()))
        if time.monotonic() > deadline_s:
            raise SystemExit("no batches")
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
