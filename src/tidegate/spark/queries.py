"""Queries that can be restarted: a recipe, the settings it was last built with, and the query that runs now."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.domain import InvalidInput
from tidegate.spark.admission import Admission, InForce, read_answer, write_admission
from tidegate.spark.settings import Settings

logger = logging.getLogger("tidegate")

Build = Callable[[SparkSession, Settings], DataStreamWriter]

_BOUNDARY_WAIT_S = 60.0
_POLL_S = 0.005
_CLOSED = Admission(rows_per_trigger=1, interval_s=1e12)  # longer than the time since the epoch


class RestartableQuery:
    """One query and how to build it again. Its checkpoint makes every restart go on exactly where it stopped."""

    def __init__(self, spark: SparkSession, build: Build, settings: Settings) -> None:
        self._spark = spark
        self._build = build
        self._lock = threading.Lock()
        self._gate_lock = threading.Lock()  # the control holds batches while the user's thread may stop the query
        self._gate = Path(settings.gate)
        self._gate.unlink(missing_ok=True)  # an earlier query of this name may have left it closed
        self._asked: Admission | None = None
        self._closed = False
        self.settings = settings
        self.query = self._start(settings)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def gate_answer(self) -> InForce | None:
        """What the source said when it was last asked for rows; None where it has no gate, or was never asked."""
        return read_answer(self._gate)

    @property
    def gated(self) -> bool:
        return self.gate_answer is not None

    @property
    def admission(self) -> Admission | None:
        """What the source's gate is set to, also while it is closed for a moment; None where there is no gate."""
        answer = self.gate_answer
        if answer is None:
            return None
        with self._gate_lock:
            return self._asked or answer.admission

    def admit(self, admission: Admission) -> None:
        """Turn the source's gate, without a restart; a closed gate takes it up when it opens."""
        with self._gate_lock:
            self._asked = admission
            if not self._closed:
                write_admission(self._gate, admission)

    def close_gate(self) -> None:
        """Let no further batch begin, where the source has a gate. Closing twice is closing once."""
        with self._gate_lock:
            if not self._closed and self.gated:
                write_admission(self._gate, _CLOSED)
                self._closed = True

    def open_gate(self) -> None:
        """Give the gate back what is asked of it, or no word at all."""
        with self._gate_lock:
            if not self._closed:
                return
            if self._asked is None:
                self._gate.unlink(missing_ok=True)
            else:
                write_admission(self._gate, self._asked)
            self._closed = False

    def restart(self, settings: Settings) -> float:
        """Stop at a batch boundary and start with other settings; back to the old ones where that fails.

        Returns the pause in seconds.
        """
        with self._lock:
            began_s = time.monotonic()
            self.stop_at_boundary()
            try:
                self.query = self._start(settings)
            except Exception:
                logger.warning("%s: did not start with new settings; going back to the old ones", self.name)
                self.query = self._start(self.settings)
                raise
            self.settings = settings
            return time.monotonic() - began_s

    def stop_at_boundary(self) -> None:
        """Stop between two batches: close the gate where there is one, and wait until no trigger is active."""
        self.close_gate()
        try:
            deadline_s = time.monotonic() + _BOUNDARY_WAIT_S
            while self.query.isActive and time.monotonic() < deadline_s:
                if not self.query.status["isTriggerActive"]:
                    break
                time.sleep(_POLL_S)
            self.query.stop()
        finally:
            self.open_gate()  # the next run must not find it closed

    def _start(self, settings: Settings) -> StreamingQuery:
        # Adaptive execution would merge and rename the stages that operators are known by; the setting is taken
        # over by the query when it starts, so it can be put back right after.
        before = self._spark.conf.get("spark.sql.adaptive.enabled", "true")
        self._spark.conf.set("spark.sql.adaptive.enabled", "false")
        try:
            writer = self._build(self._spark, settings)
            if not isinstance(writer, DataStreamWriter):
                raise InvalidInput(
                    f"{settings.name}: build must return a DataStreamWriter (df.writeStream…, without .start()), "
                    f"not {type(writer).__name__}"
                )
            return writer.queryName(settings.name).start()
        finally:
            self._spark.conf.set("spark.sql.adaptive.enabled", str(before))
