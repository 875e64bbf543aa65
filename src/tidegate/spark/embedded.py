"""Spark inside one machine: a driver with executors that are processes of their own, or all in one process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidegate.domain import EnvironmentUnfit
from tidegate.spark.executors import request_executors
from tidegate.spark.java import require_java

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# The first-tier compiler and the serial collector cut the CPU of small batches by a third; the deep plans of
# streaming queries want a larger stack with them. Every batch compiles new classes: the first tier's own code cache
# (48 MB) is full after some minutes of several queries, and the compiler then gives up for good.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xss4m"
_SETTINGS = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.locality.wait": "0s",
    "spark.python.daemon.module": "tidegate.spark.warm_daemon",
}


def embedded_session(
    name: str,
    executors: int,
    most_executors: int,
    slots: int,
    memory_mb: int = 1024,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a cluster that can grow to `most_executors`, with a target of `executors`.

    Standalone starts all it can at first; a pool keeper, or `settle_executors`, brings them down to the target.
    """
    own = {"spark.executor.memory": f"{memory_mb}m", "spark.executor.extraJavaOptions": _JAVA}
    spark = _session(name, f"local-cluster[{most_executors},{slots},{memory_mb}]", {**own, **(settings or {})})
    request_executors(spark.sparkContext, executors)
    return spark


def local_session(
    name: str, slots: int, memory_mb: int, settings: Mapping[str, str] | None = None, master: str | None = None
) -> SparkSession:
    """Spark in one small JVM, one of several on a machine; or its driver, where a master is given."""
    own = {"spark.driver.memory": f"{memory_mb}m"}
    return _session(name, master or f"local[{slots}]", {**own, **(settings or {})})


def _session(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    require_java()
    # Without this the workers pick the system's Python and fail much later.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    return start_session(builder)


def start_session(builder: SparkSession.Builder) -> SparkSession:
    """Start Spark, with the usual reasons for failing said in a line."""
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j and pyspark raise several kinds; the cause is in the text
        text = str(error)
        if "BindException" in text or "Address already in use" in text:
            raise EnvironmentUnfit(
                "Spark cannot bind its port: it is in use; stop the other program or set another "
                "(spark.ui.port, spark.driver.port)"
            ) from error
        first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
        raise EnvironmentUnfit(f"Spark did not start: {first}") from error
