"""What this Spark can do. Features are probed; versions are never compared.

| feature | since | without it |
|---|---|---|
| `live_limits` | 3.5 and before | sources are not throttled |
| `state_places` | 3.5 and before | state stays where it is until its executor is gone |
| `gated_source` | 4.2 | no `format("tidegate")` |
| `state_repartition` | 4.2 | stateful operators keep their number of partitions |
| `sketches` | 4.1 | event-time latency is counted in bins |
| `real_time` | 4.1 | there is no real-time trigger |
| `rocksdb_reloads` | 4.1 | RocksDB state is moved only if the policy asks for it |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.domain.capability import Capability

_PACKAGES = ("org.apache.spark.sql.execution.streaming.runtime", "org.apache.spark.sql.execution.streaming")
"""Spark moved its streaming classes in 4.1."""
_REAL_TIME = "org.apache.spark.sql.execution.streaming.RealTimeTrigger"
_FILE_MAPPING = "org.apache.spark.sql.execution.streaming.state.RocksDBFileMapping"
_MAPPING_FIX = "purgeIncompatibleMappingsForLoad"
"""Came with SPARK-52637, the second of the two fixes without which reloaded RocksDB state may be wrong. The class came
with the first, SPARK-49770."""
_BINNED = "by counts in bins a third wide; finer with Spark 4.1 and datasketches"
_KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def has_driver(spark: SparkSession) -> bool:
    """Whether the driver is in this process. Otherwise this is a client of Spark Connect."""
    return hasattr(spark, "_jsparkSession")


@dataclass(frozen=True, slots=True)
class Features:
    """The features found; True if usable."""

    live_limits: bool
    state_places: bool
    gated_source: bool
    state_repartition: bool
    sketches: bool
    real_time: bool
    rocksdb_reloads: bool
    kafka: bool
    connector: str
    """Maven coordinates of the matching Kafka connector."""

    def capabilities(self) -> tuple[Capability, ...]:
        """The same, with how it works or why it does not."""
        return (
            Capability("watching", True, "a listener inside the driver"),
            _said(
                "live limits",
                self.live_limits,
                "read limits of running queries, files and Kafka alike",
                "this Spark's micro-batch execution does not expose its sources",
            ),
            _said(
                "state moves",
                self.state_places,
                "one partition at a time, between two batches",
                "this Spark does not expose its state store coordinator",
            ),
            _said(
                "state repartition",
                self.state_repartition,
                "stateful operators change their parallelism, with their state (RocksDB)",
                "needs Spark 4.2; stateless operators can be rescaled",
            ),
            Capability("event-time latency", True, "by KLL sketches" if self.sketches else _BINNED),
            _said('format("tidegate")', self.gated_source, "a replayable load", "needs Spark 4.2 and pyarrow"),
            _said("real-time mode", self.real_time, "observed and sized, never throttled", "this Spark has none"),
            _said(
                "Kafka",
                self.kafka,
                "the connector is on the class path",
                f"no connector jar; set spark.jars.packages={self.connector}",
            ),
        )


def probe(spark: SparkSession) -> Features:
    """Probe a session."""
    jvm: Any = spark.sparkContext._jvm
    execution = next((found for package in _PACKAGES if (found := _class(jvm, f"{package}.MicroBatchExecution"))), None)
    return Features(
        live_limits={"uniqueSources", "uniqueSources_$eq"} <= _methods(execution),
        state_places=_class(jvm, "org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef") is not None,
        gated_source=has_gated_source(),
        state_repartition=has_state_repartition(spark),
        sketches=has_sketches(),
        real_time=_class(jvm, _REAL_TIME) is not None,
        rocksdb_reloads=_MAPPING_FIX in _methods(_class(jvm, _FILE_MAPPING)),
        kafka=_class(jvm, _KAFKA) is not None,
        connector=f"org.apache.spark:spark-sql-kafka-0-10_{_scala(jvm)}:{spark.version}",
    )


@cache
def has_gated_source() -> bool:
    """Can a Python source be told how many rows to take from which offset? Older versions would start at row 0."""
    return _importable("pyspark.sql.streaming.datasource") and _importable("pyarrow")


@cache
def has_sketches() -> bool:
    """Does Spark write KLL sketches, and can they be read here?"""
    return hasattr(F, "kll_sketch_agg_double") and _importable("datasketches")


def has_state_repartition(spark: SparkSession) -> bool:
    return hasattr(spark, "_streamingCheckpointManager")


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def _scala(jvm: Any) -> str:
    """
    >>> from types import SimpleNamespace as Having
    >>> _scala(Having(scala=Having(util=Having(Properties=Having(versionNumberString=lambda: "2.13.16")))))
    '2.13'
    """
    return ".".join(str(jvm.scala.util.Properties.versionNumberString()).split(".")[:2])


def _class(jvm: Any, name: str) -> Any:
    """A class by name, or None, from the loader that knows the job's jars."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, False, loader)
    except Exception:  # py4j wraps ClassNotFoundException
        return None


def _methods(found: Any) -> set[str]:
    return {str(method.getName()) for method in found.getMethods()} if found is not None else set()


def _said(name: str, able: bool, how: str, why_not: str) -> Capability:
    return Capability(name, able, how if able else why_not)
