"""Reads Spark's own status store in the driver: stages and executors without REST and without the UI.

One Jackson call per object crosses the bridge to the JVM as a single string; field by field it would be a hundred
calls. A stage costs about a millisecond this way, where the REST interface takes a hundred.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext


class StatusStore:
    """Stages and executors as plain dictionaries."""

    def __init__(self, sc: SparkContext) -> None:
        jvm: Any = sc._jvm
        self._store = sc._jsc.sc().statusStore()
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())

    def stage(self, stage_id: int) -> dict[str, Any] | None:
        """The last attempt of a stage, or None where the store does not know it (not yet, or no more)."""
        try:
            found = self._store.lastStageAttempt(stage_id)
        except Py4JJavaError as error:
            if "NoSuchElement" in str(error.java_exception.getClass().getName()):
                return None
            raise
        stage: dict[str, Any] = self._read(found)
        return stage

    def newest_job(self) -> dict[str, Any] | None:
        """The job that was submitted last; None before the first."""
        jobs = self._store.jobsList(None)
        newest: dict[str, Any] | None = self._read(jobs.head()) if jobs.nonEmpty() else None
        return newest

    def executors(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._read(self._store.executorList(True))
        return found

    def _read(self, found: Any) -> Any:
        return json.loads(self._mapper.writeValueAsString(found))
