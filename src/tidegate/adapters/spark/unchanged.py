"""Runs an unchanged PySpark script, with Tidegate attached to the session that it creates.

Sessions are created in two places: `SparkSession.builder.getOrCreate()` and `SparkSession(context)`. While a script
runs, both attach before they return, so the script's first query is under control from its first batch.
"""

from __future__ import annotations

import logging
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.embedded import is_remote, prepare_start
from tidegate.adapters.spark.sparkfeatures import has_driver

logger = logging.getLogger("tidegate")

CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
Attach = Callable[[SparkSession], Gate]


class Sessions:
    """The gates of the sessions that a script creates: one for each Spark context, one after the other."""

    def __init__(
        self,
        attach_to: Attach = attach,
        settings: Mapping[str, str] | None = None,
        checkpoints: Path | None = None,
        starting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`settings` apply to what the script does not set. `starting` is entered while Spark starts."""
        self._attach = attach_to
        self._settings = dict(settings or {})
        self._checkpoints = checkpoints
        self._starting = starting
        self._inside = threading.local()
        self._taking = threading.Lock()
        self.spark: SparkSession | None = None
        self.gate: Gate | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Attach to every session that is created inside this context."""
        make, construct = SparkSession.Builder.getOrCreate, SparkSession.__init__
        sessions = self

        def get_or_create(builder: SparkSession.Builder) -> SparkSession:
            first = SparkContext._active_spark_context is None
            with sessions._making(), sessions._starting() if first else nullcontext():
                if first and not is_remote(builder):
                    for key, value in sessions._settings.items():
                        if key not in builder._options:
                            builder.config(key, value)
                    prepare_start(builder)
                made = make(builder)
            sessions.take(made)
            return made

        def constructed(session: SparkSession, *arguments: Any, **named: Any) -> None:
            construct(session, *arguments, **named)
            if not getattr(sessions._inside, "making", False):
                sessions.take(session)

        SparkSession.Builder.getOrCreate = get_or_create  # type: ignore[assignment]
        SparkSession.__init__ = constructed  # type: ignore[assignment]
        try:
            yield
        finally:
            SparkSession.Builder.getOrCreate = make  # type: ignore[method-assign]
            SparkSession.__init__ = construct  # type: ignore[method-assign]

    @contextmanager
    def _making(self) -> Iterator[None]:
        self._inside.making = True
        try:
            yield
        finally:
            self._inside.making = False

    def take(self, spark: SparkSession) -> None:
        """Attach to a session, once per context. No error here may end the script."""
        if not self._taking.acquire(blocking=False):
            return  # control that is just beginning makes sessions of its own
        try:
            if self.gate is not None and self.gate.running:
                return
            if self._checkpoints is not None and has_driver(spark):  # a client has no say in its server's files
                keep_checkpoints(spark, self._checkpoints)
            self.spark, self.gate = spark, self._attach(spark)
        except Exception as error:
            logger.warning("Tidegate is not attached; the script continues: %s", str(error).strip().splitlines()[0])
        finally:
            self._taking.release()


def keep_checkpoints(spark: SparkSession, folder: Path) -> None:
    """Give queries that name no checkpoint location one in this folder, if all processes are on this machine."""
    local = (spark.sparkContext.master or "").startswith("local")
    if local and not spark.conf.get(CHECKPOINTS, ""):
        spark.conf.set(CHECKPOINTS, folder.resolve().as_uri())


def run_script(script: Path, arguments: Sequence[str], sessions: Sessions) -> None:
    """Run the file like `python script arguments`, and pass on its errors and its exit code."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers use the system's Python and fail much later
    folder = str(script.parent.resolve())
    # The Python workers import what the script imports.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    given, path = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(script), *arguments], [folder]
    try:
        with sessions.watched():
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = given, path
