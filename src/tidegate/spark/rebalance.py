"""Changes a query's parallelism while it runs, its state included, as a transaction that can be undone at every step.

    planned → draining → stopped → backed up → repartitioned → verified → restarted → confirmed
                                                                        ↘ rolled back (from any step)

Each step is written beside the checkpoint before the next begins. A process that finds an unfinished transaction goes
back to what ran before, unless the new state had been verified: then it goes on with it. Either way every row counts
once: batches are committed by the checkpoint, and only whole, uncommitted batches are ever dropped from it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.domain import TidegateError
from tidegate.domain.codec import from_json, to_json
from tidegate.history.progress import parse_progress
from tidegate.spark.checkpoint import Checkpoint
from tidegate.spark.settings import Settings
from tidegate.spark.statedigest import state_digests

logger = logging.getLogger("tidegate")

_RECORD = "rebalance.json"
_CONFIRM_WAIT_S = 180.0
_IDLE_LOOKS = 10
_POLL_S = 0.05


class Step(StrEnum):
    """How far a transaction has come."""

    PLANNED = "planned"
    DRAINING = "draining"
    STOPPED = "stopped"
    BACKED_UP = "backed up"
    REPARTITIONED = "repartitioned"
    VERIFIED = "verified"
    RESTARTED = "restarted"
    CONFIRMED = "confirmed"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"


_FORWARD = {Step.VERIFIED, Step.RESTARTED, Step.CONFIRMED}
"""From here on a transaction that was cut short is completed, not undone."""


class RebalanceFailed(TidegateError):
    """The change was undone; what ran before runs again."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is written down: enough to finish or to undo it from another process."""

    step: Step
    tasks_before: dict[str, int]
    tasks_after: dict[str, int]
    interval_before_s: float | None = None
    interval_after_s: float | None = None
    partitions: int | None = None
    """Partitions that the state is to have; None where no state moves."""
    batch: int | None = None
    """The last batch committed before the state moved."""
    note: str = ""
    times_s: dict[str, float] = field(default_factory=dict)
    """When each step was reached."""

    def settings(self, settings: Settings) -> Settings:
        """The settings to start with: the new ones once the transaction has gone past the point of return."""
        forward = self.step in _FORWARD
        tasks, interval_s = (
            (self.tasks_after, self.interval_after_s) if forward else (self.tasks_before, self.interval_before_s)
        )
        return replace(settings, tasks=MappingProxyType(dict(tasks)), interval_s=interval_s)


class Restartable(Protocol):
    """What a transaction needs of the query that it changes."""

    spark: SparkSession
    settings: Settings
    query: StreamingQuery

    def drain(self) -> None:
        """Stop between two batches, with the source's gate closed."""
        ...

    def finish_pending(self) -> None:
        """Run the batch that was cut by the stop to its end, and nothing more."""
        ...

    def begin(self, settings: Settings) -> None:
        """Start the query with these settings, the gate open."""
        ...


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """How a transaction went."""

    pause_s: float
    """From the last commit before to the first one after."""
    state_rows: int | None
    note: str


def rebalance(
    query: Restartable,
    after: Settings,
    partitions: int | None,
    told: Callable[[Transaction], None] = lambda transaction: None,
) -> Rebalanced:
    """Carry the change out, or go back and raise `RebalanceFailed`.

    `partitions` are those that the state is to have; None where no state moves.
    """
    if partitions is not None:
        checkpoint = Checkpoint(query.spark, query.settings.checkpoint)
        if checkpoint.position().committed < 0:
            raise RebalanceFailed(
                "nothing changed: the query does not keep its checkpoint where gate.start was told; "
                "use settings.checkpoint in the build, or give gate.start the path"
            )
        if checkpoint.state_partitions() == partitions:
            partitions = None  # the state is as it should be: nothing moves, and a way back has no batch to drop
    run = _Run(query, after, partitions, told)
    try:
        run.drain()
        if partitions is not None:
            run.move_state(partitions)
        run.restart()
    except Exception as error:
        logger.warning("%s: rebalance failed while %s: %s", query.settings.name, run.record.step, _first_line(error))
        run.roll_back(_first_line(error))
        raise RebalanceFailed(f"rolled back: {_first_line(error)}") from error
    return run.result


def recover(spark: SparkSession, settings: Settings) -> Settings:
    """Finish or undo what an earlier process left behind; the settings to start with."""
    checkpoint = Checkpoint(spark, settings.checkpoint)
    text = checkpoint.beside.read(_RECORD)
    if text is None:
        return settings
    try:
        record = from_json(Transaction, text)
    except ValueError as error:
        logger.warning("%s: the record of its last rebalance cannot be read: %s", settings.name, _first_line(error))
        return settings
    if record.step not in {*_FORWARD, Step.ROLLED_BACK}:
        if _left_half_moved(checkpoint, record):
            checkpoint.drop_after(record.batch or 0)
        logger.warning("%s: a rebalance was cut short while %s; rolled back", settings.name, record.step)
        record = replace(record, step=Step.ROLLED_BACK, note="cut short")
        checkpoint.beside.replace(_RECORD, to_json(record))
    return record.settings(settings)


def _left_half_moved(checkpoint: Checkpoint, record: Transaction) -> bool:
    """Is the newest batch the one that the repartition made? Batches that somebody ran since are never dropped."""
    if record.batch is None or record.partitions is None:
        return False
    made_one = checkpoint.position().planned == record.batch + 1
    return made_one and checkpoint.state_partitions() == record.partitions


class _Run:
    """One transaction under way."""

    def __init__(
        self, query: Restartable, after: Settings, partitions: int | None, told: Callable[[Transaction], None]
    ) -> None:
        self._query = query
        self._told = told
        self._after = after
        self._before = query.settings
        self._checkpoint = Checkpoint(query.spark, query.settings.checkpoint)
        self._last_commit_s = _last_commit_s(query.query) or time.time()
        self._state_rows: int | None = None
        self._note = ""
        self.record = Transaction(
            Step.PLANNED,
            tasks_before=dict(self._before.tasks),
            tasks_after=dict(after.tasks),
            interval_before_s=self._before.interval_s,
            interval_after_s=after.interval_s,
            partitions=partitions,
        )
        self._reach(Step.PLANNED)

    @property
    def result(self) -> Rebalanced:
        first_s = _first_commit_s(self._query.query) or time.time()
        return Rebalanced(max(0.0, first_s - self._last_commit_s), self._state_rows, self._note)

    def drain(self) -> None:
        self._reach(Step.DRAINING)
        self._query.drain()
        self._last_commit_s = _last_commit_s(self._query.query) or self._last_commit_s
        position = self._checkpoint.position()
        if not position.clean and self.record.partitions is not None:
            self._query.finish_pending()
            position = self._checkpoint.position()
            if not position.clean:
                raise RebalanceFailed(f"batch {position.planned} could not be completed before the state moves")
        self.record = replace(self.record, batch=position.committed)
        self._reach(Step.STOPPED)

    def move_state(self, partitions: int) -> None:
        batch = self.record.batch
        assert batch is not None
        self._checkpoint.back_up()
        self._reach(Step.BACKED_UP)
        self._query.spark._streamingCheckpointManager.repartition(self._checkpoint.path, partitions)
        self._reach(Step.REPARTITIONED)
        before, now = state_digests(
            self._query.spark, self._checkpoint.path, (batch, self._checkpoint.position().committed)
        )
        if before != now:
            raise RebalanceFailed(f"the state differs after its move: {before.rows} rows before, {now.rows} after")
        self._state_rows = now.rows
        self._note = f"{now.rows} rows of state moved to {partitions} partitions and verified"
        if now.unread:
            self._note += f"; not verified, because Spark cannot read it back: {', '.join(now.unread)}"
        self._reach(Step.VERIFIED)

    def restart(self) -> None:
        started_at = self._checkpoint.position().committed
        self._query.begin(self._after)
        self._reach(Step.RESTARTED)
        self._confirm(started_at)
        self._reach(Step.CONFIRMED)

    def roll_back(self, why: str) -> None:
        """Put the old query back. Where the new one has committed rows of its own, it is kept: rows outrank plans."""
        self._query.query.stop()
        batch, moved = self.record.batch, self.record.partitions is not None
        own_batches = self._checkpoint.position().committed - (batch or 0) - (1 if moved else 0)
        self.record = replace(self.record, note=why)
        if self.record.step in _FORWARD and batch is not None and own_batches > 0:
            self._query.begin(self._after)
            return
        try:
            self._reach(Step.ROLLING_BACK)
            if moved and batch is not None:
                self._checkpoint.drop_after(batch)
            self._reach(Step.ROLLED_BACK)
        except Exception as error:  # a full disk, say: the query is worth more than the record
            logger.warning("%s: the way back could not be written down: %s", self._before.name, _first_line(error))
        self._query.begin(self._before)

    def _confirm(self, started_at: int) -> None:
        """Wait for the first batch; a query without data is confirmed when it waits for some."""
        deadline_s, idle = time.monotonic() + _CONFIRM_WAIT_S, 0
        while time.monotonic() < deadline_s:
            query = self._query.query
            if not query.isActive:
                raise RebalanceFailed(f"the query ended after its restart: {_first_line(query.exception())}")
            progress = query.lastProgress
            if progress and "addBatch" in progress["durationMs"] and progress["batchId"] > started_at:
                return
            waiting = not query.status["isTriggerActive"] and not query.status["isDataAvailable"]
            idle = idle + 1 if waiting and progress is not None else 0
            if idle >= _IDLE_LOOKS:
                return
            time.sleep(_POLL_S)
        raise RebalanceFailed(f"no batch within {_CONFIRM_WAIT_S:.0f} s of the restart")

    def _reach(self, step: Step) -> None:
        self.record = replace(self.record, step=step, times_s={**self.record.times_s, step.value: time.time()})
        self._checkpoint.beside.replace(_RECORD, to_json(self.record))
        try:
            self._told(self.record)
        except Exception as error:  # a journal that cannot be written must not stop a query
            logger.warning("%s: a step was not noted: %s", self._before.name, _first_line(error))


def _last_commit_s(query: StreamingQuery) -> float | None:
    commits = _commits_s(query)
    return commits[-1] if commits else None


def _first_commit_s(query: StreamingQuery) -> float | None:
    commits = _commits_s(query)
    return commits[0] if commits else None


def _commits_s(query: StreamingQuery) -> list[float]:
    """When the batches that this run still remembers were committed."""
    reports = (parse_progress(report.json) for report in query.recentProgress)
    return [report.committed_s for report in reports if report.committed]


def _first_line(error: object) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
