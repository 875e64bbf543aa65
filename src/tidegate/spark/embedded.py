"""A real Spark cluster inside one machine: a driver, and executors that are processes of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidegate.domain import EnvironmentUnfit
from tidegate.spark.executors import request_executors
from tidegate.spark.java import require_java

# The first-tier compiler and the serial collector cut the CPU of small batches by a third; the deep plans of
# streaming queries want a larger stack with them.
_DRIVER_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
_EXECUTOR_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


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
    require_java()
    # Without this the workers pick the system's Python and fail much later.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName(name)
        .master(f"local-cluster[{most_executors},{slots},{memory_mb}]")
        .config("spark.executor.memory", f"{memory_mb}m")
        .config("spark.driver.extraJavaOptions", _DRIVER_JAVA)
        .config("spark.executor.extraJavaOptions", _EXECUTOR_JAVA)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.locality.wait", "0s")
        .config("spark.python.daemon.module", "tidegate.spark.warm_daemon")
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = start_session(builder)
    request_executors(spark.sparkContext, executors)
    return spark


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


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
