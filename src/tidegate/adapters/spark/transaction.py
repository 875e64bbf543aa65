"""The record of a rebalance: how far it got, and how another process continues an interrupted one."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pyspark.sql import SparkSession

from tidegate.adapters.spark.checkpoint import Checkpoint
from tidegate.adapters.spark.settings import Settings
from tidegate.domain import TidegateError
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.python310 import StrEnum

logger = logging.getLogger("tidegate")

RECORD = "rebalance.json"


class Step(StrEnum):
    """The progress of a transaction."""

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


FORWARD = {Step.VERIFIED, Step.RESTARTED, Step.CONFIRMED}
"""From here on, an interrupted transaction is completed, not undone."""


class RebalanceFailed(TidegateError):
    """The change was not made. The message says how the query continues."""


class QueryEnded(RebalanceFailed):
    """The user stopped the query in the meantime, so nothing may be started."""


class RestartFailed(RebalanceFailed):
    """The query does not run: every attempt to start it again failed."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The record: enough to finish or undo the transaction from another process."""

    step: Step
    tasks_before: dict[str, int]
    tasks_after: dict[str, int]
    interval_before_s: float | None = None
    interval_after_s: float | None = None
    partitions: int | None = None
    """The new number of state partitions; None if no state moves."""
    batch: int | None = None
    """The last batch committed before the state moved."""
    note: str = ""
    times_s: dict[str, float] = field(default_factory=dict)
    """When each step was reached."""

    def settings(self, settings: Settings) -> Settings:
        """The settings to start with: the new ones once the transaction has passed the point of no return."""
        forward = self.step in FORWARD
        tasks, interval_s = (
            (self.tasks_after, self.interval_after_s) if forward else (self.tasks_before, self.interval_before_s)
        )
        return replace(settings, tasks=MappingProxyType(dict(tasks)), interval_s=interval_s)


def recover(spark: SparkSession, settings: Settings) -> Settings:
    """Finish or undo what an earlier process left behind. Returns the settings to start with."""
    checkpoint = Checkpoint(spark, settings.checkpoint)
    text = checkpoint.beside.read(RECORD)
    if text is None:
        return settings
    try:
        record = from_json(Transaction, text)
    except ValueError as error:
        logger.warning("%s: the record of its last rebalance cannot be read: %s", settings.name, first_line(error))
        return settings
    unfinished = _made_by_repartition(checkpoint, record)
    if unfinished and record.batch is not None:
        checkpoint.drop_after(record.batch)
    if unfinished or record.step not in {*FORWARD, Step.ROLLED_BACK}:
        logger.warning("%s: a rebalance was interrupted while %s; rolled back", settings.name, record.step)
        record = replace(record, step=Step.ROLLED_BACK, note="interrupted")
        checkpoint.beside.replace(RECORD, to_json(record))
    return record.settings(settings)


def _made_by_repartition(checkpoint: Checkpoint, record: Transaction) -> bool:
    """Was the newest batch made by the repartition, so that it must be removed?

    Batches that ran since are never dropped. On the way forward, the batch is committed and stays. If its commit is
    missing, a rollback was killed before it finished.
    """
    if record.batch is None or record.partitions is None:
        return False
    position = checkpoint.position()
    made = position.planned == record.batch + 1 and checkpoint.state_partitions() == record.partitions
    return made and (record.step not in FORWARD or not position.clean)


def first_line(error: object) -> str:
    """The message of an error, without its trace."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
