"""A process for the test that kills: it picks a query up where the last one left it, and rebalances it until it dies.

python -m tests.spark.rebalance_victim FOLDER WHERE    WHERE: see `main`; "none" lives on and checks the counts
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.keyed import keyed_check, keyed_count
from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.embedded import local_session
from tidegate.adapters.spark.hadoopfiles import HadoopFiles
from tidegate.adapters.spark.restartablequery import RestartableQuery
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.source import TidegateSource
from tidegate.adapters.spark.transaction import Transaction, recover


def main(folder: Path, where: str) -> None:
    """Die at a step of the transaction (`verified`), while Spark repartitions (`in repartition`), or right after a
    rollback (`rollback state`) or the recovery at the start (`recovery state`) has deleted the first file of a kind.
    """
    spark = local_session("victim", slots=2, memory_mb=1024)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(TidegateSource)
    checkpoint = Checkpoint(spark, str(folder / "checkpoint"))
    if where.startswith("recovery "):
        die_after_deleting(spark, where.removeprefix("recovery "))
    settings = recover(spark, Settings("walked", gate=str(folder / "gate.json"), checkpoint=checkpoint.path))
    partitions = 5 if checkpoint.state_partitions() == 3 else 3  # of the state as recovery leaves it
    goes_back = where.startswith("roll")
    build = keyed_count(refused=lambda settings: goes_back and settings.parallelism("count", 2) == partitions)
    query = RestartableQuery(spark, build, settings)
    wait_for_batches(query, 2)
    if where == "none":
        check(query)
        return
    if where.startswith("rollback "):
        die_after_deleting(spark, where.removeprefix("rollback "))
    if where == "in repartition":
        threading.Thread(target=die_in_repartition, args=(spark, checkpoint), daemon=True).start()

    def told(transaction: Transaction) -> None:
        if transaction.step.value == where:
            die(spark)

    query.rebalance(query.settings.with_parallelism("count", partitions), partitions, told)
    raise SystemExit(f"{where} was never reached")


def die(spark: SparkSession) -> None:
    """Leave nobody who could tidy up: Spark's own process goes first."""
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGKILL)


def die_after_deleting(spark: SparkSession, kind: str) -> None:
    delete = HadoopFiles.delete

    def delete_and_die(files: HadoopFiles, name: str) -> None:
        delete(files, name)
        if name.startswith(f"{kind}/"):
            die(spark)

    HadoopFiles.delete = delete_and_die  # type: ignore[method-assign]


def die_in_repartition(spark: SparkSession, checkpoint: Checkpoint) -> None:
    """As soon as a partition has been written, and the batch not yet committed."""
    folder = Path(checkpoint.path)
    logs = [folder / "offsets", folder / "commits"]
    while True:
        planned, committed = (max(int(file.name) for file in log.iterdir() if file.name.isdigit()) for log in logs)
        made = (folder / "state/0").glob(f"*/{planned + 1}.zip")
        if planned == committed + 1 and not any((folder / "state/0").glob(f"*/{planned + 1}.changelog")) and any(made):
            die(spark)
        time.sleep(0.001)


def check(query: RestartableQuery) -> None:
    query.drain()
    if query.query.exception() is not None:
        raise SystemExit(str(query.query.exception()))
    query.finish_pending()
    rows, lost, doubled = keyed_check(query.spark, query.settings.checkpoint)
    print(f"rows {rows} lost {lost} doubled {doubled}")
    query.spark.stop()


def wait_for_batches(query: RestartableQuery, count: int) -> None:
    deadline_s = time.monotonic() + 400
    while sum("addBatch" in report["durationMs"] for report in query.query.recentProgress) < count:
        if query.query.exception() is not None:
            raise SystemExit(str(query.query.exception()))
        if time.monotonic() > deadline_s:
            raise SystemExit("no batches")
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
