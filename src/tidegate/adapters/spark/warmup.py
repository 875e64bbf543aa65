"""New executors warm up before they get tasks: `WarmUp.java`, a plugin that rehearses a small task first.

A cold executor makes the batch in which it joins slower, not faster: it loads classes, compiles, and starts Python
workers while that batch waits for its tasks. The plugin has to be set before Spark starts, so this is done where
Tidegate starts Spark. The rehearsal is offered while Tidegate controls the pool; the first executors start without it.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.adapters.spark.classarchive import kept_folder
from tidegate.adapters.spark.janino import bytecodes

logger = logging.getLogger("tidegate")

_PLUGIN = "tidegate.WarmUp"
_PLUGINS, _JARS, _MASTER = "spark.plugins", "spark.jars", "spark.master"
_ROWS = 256
_ASKS = 5
"""Number of steps at which to ask after executors have joined. Their reports may arrive a moment after them."""
REHEARSAL_S = 3.0
"""How long an executor rehearses after it has registered."""


def warm_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that make new executors warm, combined with the given ones. The driver's JVM must be running.

    Nothing is set for a local master, which starts no executors, and nothing if this Spark is not as expected.
    """
    master = settings.get(_MASTER, "")
    if not master or (master.startswith("local") and not master.startswith("local-cluster")):
        return {}
    try:
        jar = _jar(SparkContext._gateway)
    except Exception as error:  # py4j, Janino and the file system raise several types; a cold executor works too
        logger.warning("new executors start cold: %s", next(iter(str(error).splitlines()), type(error).__name__))
        return {}
    return {
        _PLUGINS: ",".join(filter(None, [settings.get(_PLUGINS), _PLUGIN])),
        _JARS: ",".join(filter(None, [settings.get(_JARS), str(jar)])),
    }


class Rehearsals:
    """The rehearsals of new executors, if Spark was started with the plugin."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tried = False
        self._offered = False
        self._failed = False
        self._seen: set[str] = set()
        self._asks = 0
        """How many more times to ask for failures."""

    def offer_once(self, slots: int) -> None:
        """From now on, new executors rehearse on all slots before they get tasks."""
        if not self._tried:
            self._tried = True
            try:
                self._offered = offer_rehearsal(self._spark, slots)
            except Exception as error:  # py4j and pyspark raise several types
                logger.warning(
                    "new executors start cold: %s", next(iter(str(error).splitlines()), type(error).__name__)
                )

    def work(self, executors: set[str]) -> bool:
        """Has a rehearsal been offered, and has none failed? `executors` are those that are registered."""
        if executors - self._seen:
            self._asks = _ASKS
        self._seen = executors
        if self._offered and not self._failed and self._asks:
            self._asks -= 1
            if trouble := str(_java(self._spark).trouble()):
                self._failed = True
                logger.warning("new executors start cold: %s", trouble)
        return self._offered and not self._failed

    def withdraw(self) -> None:
        """From now on, new executors start as they would without control."""
        if self._offered:
            _java(self._spark).withdraw()
        self._tried = self._offered = False


def offer_rehearsal(spark: SparkSession, slots: int) -> bool:
    """From now on, new executors rehearse before they get tasks. False if Spark was started without the plugin."""
    if _PLUGIN not in (spark.sparkContext.getConf().get(_PLUGINS) or "").split(","):
        return False
    _java(spark).offer(rehearsal(spark)._jdf.queryExecution().toRdd(), slots)
    return True


def rehearsal(spark: SparkSession) -> DataFrame:
    """A small query with what most jobs use: generated code, a Python function, an aggregate."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # its plans run jobs when they are asked for their RDD
    rows = session.range(0, _ROWS, 1, 1)
    text = F.udf(str.upper, "string")(F.col("id").cast("string"))
    return rows.groupBy((F.col("id") % 8).alias("key"), text.alias("text")).count()


def _java(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jvm.tidegate.WarmUp


@cache
def _jar(gateway: Any) -> Path:
    """The plugin's classes as a file for the executors. The driver's class loader knows it from now on.

    It must be there as long as the job: an executor that cannot fetch it does not start. So it is not a temporary file.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, code in sorted(bytecodes(gateway, "WarmUp").items()):
            archive.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class"), code)
    content = packed.getvalue()
    jar = kept_folder() / f"warm-up-{hashlib.sha256(content).hexdigest()[:12]}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        draft = jar.with_suffix(f".{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(jar)
    gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(
        gateway.jvm.java.io.File(str(jar)).toURI().toURL()
    )
    return jar
