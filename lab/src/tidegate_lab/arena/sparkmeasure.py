"""What an executor can do and how long it takes to start, measured before a tournament on Spark.

The load is scaled by it, so a tournament is equally hard on a fast machine and a slow one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.executors import request_executors
from tidegate.adapters.spark.gatefile import GateLimit
from tidegate.control.journal import read_entries
from tidegate.domain import BatchSample, EnvironmentUnfit, Mode
from tidegate.load import Constant
from tidegate_lab.arena.sparkplay import RowWork, cluster
from tidegate_lab.experiments.attached import check_alive

Found = TypeVar("Found")
_NAME = "measured"
_WARM, _EACH = 4, 4
_LONG_S, _SHORTER, _STEP = 5.0, 4, 4.0
"""Batches grow until they take this long, at most by this factor at a time. Short ones have this part of their rows."""
_FIRST_ROWS = 2000
_LIMIT_S = 240.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Of a one-slot executor."""

    row_s: float
    """Seconds per row, in addition to `batch_s` per batch."""
    batch_s: float
    """Most of it is the start of tasks, so several executors share it."""
    startup_s: float
    """From the request to the registration of an executor."""
    warmup_s: float
    """From then to the end of the first batch in which it ran a task."""

    def row_s_in(self, duration_s: float, executors: int) -> float:
        """Slot-seconds per row in batches that take this long, with their share of the fixed cost.

        >>> Measured(row_s=0.0001, batch_s=2.0, startup_s=0.0, warmup_s=0.0).row_s_in(5.0, executors=2)
        0.000125
        """
        slot_s = duration_s * executors
        return self.row_s * slot_s / max(slot_s / 2, slot_s - self.batch_s)


def fitted(rows: Sequence[float], durations_s: Sequence[float]) -> tuple[float, float]:
    """Seconds per row and per batch.

    >>> row_s, batch_s = fitted([1000, 1000, 5000], [1.5, 1.5, 3.5])
    >>> round(row_s, 6), round(batch_s, 6)
    (0.0005, 1.0)
    """
    slope, level = np.polyfit(np.array(rows), np.array(durations_s), 1)
    if slope <= 0:
        raise EnvironmentUnfit("larger batches did not take longer, so the cost of a row cannot be measured; try again")
    return float(slope), max(0.0, float(level))


def measure(work: RowWork, told: Callable[[str], None] = lambda what: None) -> Measured:
    """Short and long batches on one executor under more rows than it can do; then a second executor is added."""
    with tempfile.TemporaryDirectory(prefix="tidegate-arena-") as folder, cluster(work.cpus, 1, 2) as spark:
        store = Path(folder) / "measured.db"
        with attach(spark, {"mode": Mode.OFF, "interval_s": 0.5, "journal": {"path": str(store)}}) as gate:
            told("cost of a row")
            query = gate.start(_NAME, work.job(Constant(rate=1e6), f"{folder}/output").build, f"{folder}/checkpoint")
            rows = _FIRST_ROWS
            query.admit(GateLimit(rows))
            duration_s = _more(gate, store, _WARM)[-1].duration_s
            while duration_s < _LONG_S:
                rows = round(rows * min(_STEP, 1.2 * _LONG_S / duration_s))
                query.admit(GateLimit(rows))
                duration_s = _more(gate, store, 1, rows)[-1].duration_s
            chosen = _more(gate, store, _EACH, rows)
            query.admit(GateLimit(rows // _SHORTER))
            chosen += _more(gate, store, _EACH, rows // _SHORTER)
            row_s, batch_s = fitted([batch.rows for batch in chosen], [batch.duration_s for batch in chosen])
            told("start of an executor")
            startup_s, warmup_s = _started(spark, gate, store)
            query.stop_at_boundary()
    return Measured(row_s, batch_s, startup_s, warmup_s)


def _started(spark: SparkSession, gate: Gate, store: Path) -> tuple[float, float]:
    requested_s = time.time()
    request_executors(spark.sparkContext, 2)
    registered_s = _await(gate, lambda: _registered_s(gate), "a second executor")
    joined_s = _await(gate, lambda: _joined_s(store), "a batch on two executors")
    return registered_s - requested_s, max(0.0, joined_s - registered_s)


def _registered_s(gate: Gate) -> float | None:
    seen = gate.runner.last.observation if gate.runner.last is not None else None
    return seen.time_s if seen is not None and seen.pool.registered >= 2 else None


def _joined_s(store: Path) -> float | None:
    for batch in reversed(_batches(store)):
        if len({executor for operator in batch.operators for executor in operator.executors}) >= 2:
            return batch.committed_s
    return None


def _more(gate: Gate, store: Path, count: int, rows: int | None = None) -> list[BatchSample]:
    """The next batches, or the next with this many rows."""
    before = len(_batches(store))

    def found() -> list[BatchSample] | None:
        new = [batch for batch in _batches(store)[before:] if rows is None or batch.rows == rows]
        return new if len(new) >= count else None

    return _await(gate, found, f"{count} batches")


def _await(gate: Gate, condition: Callable[[], Found | None], what: str) -> Found:
    deadline_s = time.monotonic() + _LIMIT_S
    while (found := condition()) is None:
        check_alive(gate)
        if time.monotonic() > deadline_s:
            raise EnvironmentUnfit(f"{what}: none within {_LIMIT_S:.0f} s, so the machine is too busy to measure it")
        time.sleep(0.2)
    return found


def _batches(store: Path) -> list[BatchSample]:
    return [
        batch
        for entry in read_entries(store)
        if entry.observation
        for sample in entry.observation.applications
        if sample.name == _NAME
        for batch in sample.batches
        if batch.rows
    ]
