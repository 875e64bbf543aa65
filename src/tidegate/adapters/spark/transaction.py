"""The record of a rebalance: how far it has come, and what another process makes of one that was cut short."""

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


FORWARD = {Step.VERIFIED, Step.RESTARTED, Step.CONFIRMED}
"""From here on a transaction that was cut short is completed, not undone."""


class RebalanceFailed(TidegateError):
    """The change did not come about; the message says how the query goes on."""


class QueryEnded(RebalanceFailed):
    """The user ended the query meanwhile: nothing is to be started any more."""


class RestartFailed(RebalanceFailed):
    """The query does not run: every attempt to start it again failed."""


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
        forward = self.step in FORWARD
        tasks, interval_s = (
            (self.tasks_after, self.interval_after_s) if forward else (self.tasks_before, self.interval_before_s)
        )
        return replace(settings, tasks=MappingProxyType(dict(tasks)), interval_s=interval_s)


def recover(spark: SparkSession, settings: Settings) -> Settings:
    """Finish or undo what an earlier process left behind; the settings to start with."""
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
        logger.warning("%s: a rebalance was cut short while %s; rolled back", settings.name, record.step)
        record = replace(record, step=Step.ROLLED_BACK, note="cut short")
        checkpoint.beside.replace(RECORD, to_json(record))
    return record.settings(settings)


def _made_by_repartition(checkpoint: Checkpoint, record: Transaction) -> bool:
    """Is the newest batch one that the repartition made, and that has to go?

    Batches that somebody ran since are never dropped. On the way forward the batch is committed and stays; without its
    commit it is what a rollback was killed over.
    """
    if record.batch is None or record.partitions is None:
        return False
    position = checkpoint.position()
    made = position.planned == record.batch + 1 and checkpoint.state_partitions() == record.partitions
    return made and (record.step not in FORWARD or not position.clean)


def first_line(error: object) -> str:
    """What an error says, without its trace."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
