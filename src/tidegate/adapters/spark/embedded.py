"""Spark on one machine: a driver with executors as separate processes, or all in one process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidegate.adapters.spark.classarchive import archive_option
from tidegate.adapters.spark.executors import request_executors
from tidegate.adapters.spark.java import java_version, require_java
from tidegate.adapters.spark.warmup import warm_settings
from tidegate.domain import EnvironmentUnfit

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# The first-tier compiler and the serial collector cut the CPU use of small batches by a third. The deep plans of
# streaming queries then need a larger stack. Every batch compiles new classes: the first tier's default code cache
# (48 MB) is full after some minutes with several queries, and the compiler then stops for good.
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xss4m"
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Spark's own pattern (`spark.redaction.regex`)."""
_FETCHED = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
_REMOTE = re.compile(r"(^|,)\s*(?!file:|local:)[A-Za-z][A-Za-z0-9+.-]*://")
_ADDRESS = "SPARK_LOCAL_IP"
_SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.python.daemon.module": "tidegate.adapters.spark.warm_daemon",
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

    Standalone first starts as many as it can. A pool keeper or `settle_executors` reduces them to the target.
    """
    own = embedded_settings(most_executors, slots, memory_mb)
    with _on_loopback():
        spark = _session(name, own["spark.master"], {**own, **(settings or {})})
    request_executors(spark.sparkContext, executors)
    return spark


def embedded_settings(most_executors: int, slots: int, memory_mb: int = 1024) -> dict[str, str]:
    """The settings of an embedded cluster, including its master."""
    archive = archive_option(java_version(), JAVA)
    return {
        **_SETTINGS,
        "spark.master": f"local-cluster[{most_executors},{slots},{memory_mb}]",
        "spark.executor.memory": f"{memory_mb}m",
        "spark.executor.extraJavaOptions": f"{JAVA} {archive}".strip(),
    }


def local_session(
    name: str, slots: int, memory_mb: int, settings: Mapping[str, str] | None = None, master: str | None = None
) -> SparkSession:
    """Spark in one small JVM, one of several on a machine; or only its driver, if a master is given."""
    own = {"spark.driver.memory": f"{memory_mb}m"}
    return _session(name, master or f"local[{slots}]", {**own, **(settings or {})})


def _session(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    require_java()
    # Without this, the workers use the system's Python and fail much later.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    wanted = {**_SETTINGS, **settings}
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return start_session(builder)


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Start the JVM so that master, workers and executors, not only the driver, listen on the loopback interface.

    They take their address from the environment, not from the settings.
    """
    before = os.environ.get(_ADDRESS)
    os.environ.setdefault(_ADDRESS, "127.0.0.1")
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ADDRESS]


def prepare_start(builder: SparkSession.Builder) -> None:
    """Start the driver's JVM, without secrets, and make new executors start warm.

    PySpark puts every setting on the JVM's command line, where anyone on the machine can read it with `ps`. Secrets are
    passed through py4j later, unless Spark needs them to fetch files before that.
    """
    if is_remote(builder):
        return
    settings = {key: str(value) for key, value in builder._options.items()}
    needed = _fetches_files(settings)
    passed = [(key, value) for key, value in settings.items() if needed or not _SECRET.search(key)]
    ours = SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(passed))
    submitted = dict(SparkConf().getAll())  # with Spark's defaults, and the jars of packages
    # The JVM that was just started knows these settings and has completed them. Another one does not know them.
    known = {**settings, **submitted} if ours else {**submitted, **settings}
    for key, value in warm_settings(known).items():
        builder.config(key, value)


def is_remote(builder: SparkSession.Builder) -> bool:
    """Is it a client of Spark Connect? Then the driver is in another process."""
    return "spark.remote" in builder._options or "SPARK_REMOTE" in os.environ


def _fetches_files(settings: Mapping[str, str]) -> bool:
    """Does Spark fetch files while it starts? It may need secrets for that.

    >>> [_fetches_files({"spark.jars": jars}) for jars in ("a.jar,file:///b.jar", "a.jar,s3a://bucket/b.jar")]
    [False, True]
    """
    return any(_REMOTE.search(settings.get(key, "")) for key in _FETCHED)


def start_session(builder: SparkSession.Builder) -> SparkSession:
    """Start Spark. The usual reasons for a failure are reported in one line."""
    try:
        if SparkContext._active_spark_context is None:
            prepare_start(builder)
        return builder.getOrCreate()
    except Exception as error:  # py4j and pyspark raise several types; the cause is in the text
        text = str(error)
        if "BindException" in text or "Address already in use" in text:
            raise EnvironmentUnfit(
                "Spark cannot bind its port, because it is in use; stop the other program or set another port "
                "(spark.ui.port, spark.driver.port)"
            ) from error
        first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
        raise EnvironmentUnfit(f"Spark did not start: {first}") from error
