"""Changes a query's parallelism while it runs, its state included, as a transaction.

    planned → draining → stopped → backed up → repartitioned → verified → restarted → confirmed
                                                     rolling back → rolled back

Each step is recorded beside the checkpoint before the next begins. A process that finds an unfinished transaction rolls
it back, unless the new state had been verified: then it completes it.

Every row counts once, because of two rules. First, the only batch ever dropped from the checkpoint is the one made by
the repartition, with all the state that it wrote; it contains no rows. Second, once the query has planned a batch on
the new state, that batch may have reached the sink, and a sink that identifies batches by number would skip other rows
under the same number. From then on, a failure is handled by going forward.

In both directions, starting the query is retried with growing delays. If no attempt succeeds, the error says so, and
the next start of the query continues from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.settings import Settings
from tidegate.adapters.spark.sparkfeatures import has_state_repartition
from tidegate.adapters.spark.statedigest import state_digests
from tidegate.adapters.spark.transaction import (
    RECORD,
    QueryEnded,
    RebalanceFailed,
    RestartFailed,
    Step,
    Transaction,
    first_line,
)
from tidegate.domain.codec import to_json
from tidegate.history.progress import parse_progress

logger = logging.getLogger("tidegate")

Result = TypeVar("Result")

_CONFIRM_WAIT_S = 180.0
_BACK_OFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Delays between the attempts to get a query running again."""
_IDLE_LOOKS = 10
_POLL_S = 0.05


class Restartable(Protocol):
    """What a transaction needs from the query that it changes."""

    spark: SparkSession
    settings: Settings
    query: StreamingQuery

    def drain(self) -> None:
        """Stop between two batches, with the source's gate closed."""
        ...

    def finish_pending(self) -> None:
        """Complete the batch that the stop has cut off, and nothing more."""
        ...

    def begin(self, settings: Settings) -> None:
        """Start the query with these settings and an open gate. `QueryEnded` if the user has stopped it."""
        ...


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """The result of a transaction."""

    pause_s: float
    """From the last commit before to the first commit after."""
    state_rows: int | None
    note: str


def rebalance(
    query: Restartable,
    after: Settings,
    partitions: int | None,
    told: Callable[[Transaction], None] = lambda transaction: None,
) -> Rebalanced:
    """Carry out the change, or roll back and raise `RebalanceFailed`; `RestartFailed` if the query does not run then.

    `partitions`: the new number of state partitions; None if no state moves.
    """
    if partitions is not None:
        checkpoint = Checkpoint(query.spark, query.settings.checkpoint)
        if checkpoint.position().committed < 0:
            raise RebalanceFailed(
                "nothing changed: the query does not keep its checkpoint where gate.start was told to; "
                "use settings.checkpoint in the build, or pass the path to gate.start"
            )
        if checkpoint.state_partitions() == partitions:
            partitions = None  # the state already has this many: nothing moves, and a rollback has no batch to drop
        elif not has_state_repartition(query.spark):
            raise RebalanceFailed("nothing changed: this Spark cannot repartition state (4.2 can)")
    run = _Run(query, after, partitions, told)
    try:
        run.drain()
        if partitions is not None:
            run.move_state(partitions)
        run.restart()
    except Exception as error:
        logger.warning("%s: rebalance failed while %s: %s", query.settings.name, run.record.step, first_line(error))
        run.come_back(error)
    return run.result


class _Run:
    """One transaction in progress."""

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
                raise RebalanceFailed(f"batch {position.planned} could not be completed before moving the state")
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
            raise RebalanceFailed(f"the state differs after the move: {before.rows} rows before, {now.rows} after")
        self._state_rows = now.rows
        self._note = f"{now.rows} rows of state moved to {partitions} partitions and verified"
        if now.unread:
            self._note += f"; not verified, because Spark cannot read it back: {', '.join(now.unread)}"
        self._reach(Step.VERIFIED)

    def restart(self) -> None:
        started_at = self._checkpoint.position().committed
        self._query.begin(self._after)
        self._reach(Step.RESTARTED)
        if not self._confirmed(started_at) and self._checkpoint.position().planned <= started_at:
            raise RebalanceFailed(f"no batch within {_CONFIRM_WAIT_S:.0f} s of the restart")
        self._reach(Step.CONFIRMED)

    def come_back(self, error: Exception) -> None:
        """Get the query running again after a failure.

        Returns normally if the change is in force after all, because going forward was the only way.
        """
        why = first_line(error)
        self.record = replace(self.record, note=why)
        if not self._stopped():
            raise RebalanceFailed(f"the query could not be stopped and continues unchanged: {why}") from error
        batch = self.record.batch
        if batch is not None and self.record.partitions is not None:
            if self._insist(self._checkpoint.position).planned > batch + 1:
                self._go_forward(error)
                return
            self._note_step(Step.ROLLING_BACK)
            self._insist(lambda: self._checkpoint.drop_after(batch))
        self._note_step(Step.ROLLED_BACK)
        self._insist(lambda: self._run_with(self._before))
        raise RebalanceFailed(f"rolled back: {why}") from error

    def _go_forward(self, error: Exception) -> None:
        """Stay on the new state: with the new settings or, if they fail, with as many of the old ones as possible.

        The number of partitions cannot be rolled back, because a batch planned on them may be in the sink.
        """
        kept = _on_new_state(self._before, self._after, self.record.partitions)
        try:
            self._insist(lambda: self._run_with(self._after))
        except RestartFailed:
            if kept == self._after:
                raise
            self.record = replace(self.record, tasks_after=dict(kept.tasks), interval_after_s=kept.interval_s)
            self._insist(lambda: self._run_with(kept))
            self._note_step(Step.CONFIRMED)
            raise RebalanceFailed(
                f"rolled back, except for the state, which stays in {self.record.partitions} partitions because a "
                f"batch was planned on them: {first_line(error)}"
            ) from error
        self._note = f"{self._note}; restarted after an error: {first_line(error)}"
        self._note_step(Step.CONFIRMED)

    def _stopped(self) -> bool:
        """Stop whatever runs. If a query cannot be stopped, it is left running rather than started twice."""
        try:
            self._query.query.stop()
        except Exception as error:
            logger.warning("%s: could not be stopped: %s", self._before.name, first_line(error))
        return not self._query.query.isActive

    def _insist(self, attempt: Callable[[], Result]) -> Result:
        """Retry with growing delays. Raises `RestartFailed` after the last attempt."""
        for pause_s in _BACK_OFF_S:
            try:
                return attempt()
            except QueryEnded:
                raise
            except Exception as error:
                text = first_line(error)
                logger.warning("%s: not running; next attempt in %g s: %s", self._before.name, pause_s, text)
                time.sleep(pause_s)
        try:
            return attempt()
        except QueryEnded:
            raise
        except Exception as error:
            raise RestartFailed(
                f"the query does not run: {len(_BACK_OFF_S) + 1} attempts to restart it failed, the last one with: "
                f"{first_line(error)}; remove the cause and start the query again"
            ) from error

    def _run_with(self, settings: Settings) -> None:
        started_at = self._checkpoint.position().committed
        self._query.begin(settings)
        self._confirmed(started_at)

    def _confirmed(self, started_at: int) -> bool:
        """Wait for the first batch, or until the query waits for data. False if the time runs out."""
        deadline_s, idle = time.monotonic() + _CONFIRM_WAIT_S, 0
        while time.monotonic() < deadline_s:
            query = self._query.query
            if not query.isActive:
                if query.exception() is None:
                    return True  # it completed, or the user stopped it
                raise RebalanceFailed(f"the query ended after its restart: {first_line(query.exception())}")
            progress = query.lastProgress
            if progress and "addBatch" in progress["durationMs"] and progress["batchId"] > started_at:
                return True
            waiting = not query.status["isTriggerActive"] and not query.status["isDataAvailable"]
            idle = idle + 1 if waiting and progress is not None else 0
            if idle >= _IDLE_LOOKS:
                return True
            time.sleep(_POLL_S)
        return False

    def _note_step(self, step: Step) -> None:
        """Record a step if possible: on a full disk, for example, the query matters more than the record."""
        try:
            self._reach(step)
        except Exception as error:
            logger.warning("%s: step %s was not recorded: %s", self._before.name, step, first_line(error))

    def _reach(self, step: Step) -> None:
        self.record = replace(self.record, step=step, times_s={**self.record.times_s, step.value: time.time()})
        self._checkpoint.beside.replace(RECORD, to_json(self.record))
        try:
            self._told(self.record)
        except Exception as error:  # a failing journal must not stop a query
            logger.warning("%s: a step was not written to the journal: %s", self._before.name, first_line(error))


def _on_new_state(before: Settings, after: Settings, partitions: int | None) -> Settings:
    """The old settings, except that operators which were to get the new number of partitions as tasks keep it."""
    moved = {name: tasks for name, tasks in after.tasks.items() if tasks == partitions}
    return replace(before, tasks=MappingProxyType({**before.tasks, **moved}))


def _last_commit_s(query: StreamingQuery) -> float | None:
    commits = _commits_s(query)
    return commits[-1] if commits else None


def _first_commit_s(query: StreamingQuery) -> float | None:
    commits = _commits_s(query)
    return commits[0] if commits else None


def _commits_s(query: StreamingQuery) -> list[float]:
    """Commit times of the batches that this run still remembers."""
    reports = (parse_progress(report.json) for report in query.recentProgress)
    return [report.committed_s for report in reports if report.committed]
