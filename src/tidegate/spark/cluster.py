"""The live Spark context behind the `Cluster` port: observations from listener and status store, actions on the pool
and on queries."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from pyspark.sql import SparkSession

from tidegate.domain import (
    Action,
    ActionReceipt,
    ApplicationSample,
    ArrivalSample,
    Decision,
    Mode,
    Observation,
    Outcome,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
)
from tidegate.domain.policy import Policy
from tidegate.spark.admission import Admission
from tidegate.spark.applications import ApplicationBook
from tidegate.spark.hosts import this_host
from tidegate.spark.pool import ExecutorPoolKeeper
from tidegate.spark.queries import RestartableQuery
from tidegate.spark.watcher import Watcher

logger = logging.getLogger("tidegate")


class SparkCluster:
    """Watches and steers one Spark context."""

    def __init__(self, spark: SparkSession, policy: Policy) -> None:
        self._watcher = Watcher(spark)
        self._pool = ExecutorPoolKeeper(spark.sparkContext, self._watcher, policy, may_act=policy.mode is Mode.APPLY)
        self._book = ApplicationBook(self._watcher)
        self._watcher.start()
        self.restartable: dict[str, RestartableQuery] = {}

    def observe(self) -> Observation:
        self._pool.converge(self)
        look = self._watcher.look()
        applications = tuple(self._with_handles(sample) for sample in self._book.samples(look))
        return Observation(time.time(), applications, self._pool.sample(tuple(look.executors)), (this_host(),))

    def apply(self, decision: Decision) -> Receipt:
        """Every action is tried; one that fails does not keep the others from being done."""
        return Receipt(tuple(self._receipt(action) for action in decision.actions))

    def between_batches(self) -> bool:
        """Is no query in the middle of a batch?"""
        return self._watcher.between_batches()

    def hold_batches(self) -> None:
        """Ask for a gap: no further batch begins until `resume_batches`.

        Only where every query has a gate: the others would leave no gap, and the gated ones would wait for nothing.
        """
        gated = [query for query in list(self.restartable.values()) if query.query.isActive and query.gated]
        if len(gated) == self._book.active_queries():
            for query in gated:
                query.close_gate()

    def resume_batches(self) -> None:
        for query in list(self.restartable.values()):
            query.open_gate()

    def close(self) -> None:
        self.resume_batches()
        self._watcher.stop()

    def _receipt(self, action: Action) -> ActionReceipt:
        try:
            return self._act(action)
        except Exception as error:  # the job goes on; the journal says what failed
            text = str(error).strip()
            logger.warning("%s failed: %s", action, text.splitlines()[0] if text else type(error).__name__)
            return ActionReceipt(action, Outcome.FAILED, text.splitlines()[0] if text else type(error).__name__)

    def _act(self, action: Action) -> ActionReceipt:
        if isinstance(action, ScaleExecutors):
            return self._pool.scale(action, self)
        if isinstance(action, SetShare):
            return ActionReceipt(action, Outcome.REFUSED, "this cluster has no shares to set")
        query = self.restartable.get(action.application)
        if query is None:
            note = "the query was not started through gate.start, so it cannot be changed while it runs"
            return ActionReceipt(action, Outcome.REFUSED, note)
        if isinstance(action, SetAdmission):
            return self._admit(query, action)
        if isinstance(action, SetBatchInterval):
            admission = query.admission
            if admission is not None:
                query.admit(replace(admission, interval_s=action.interval_s))
                return ActionReceipt(action, Outcome.DONE, "through the gate, without a restart")
            return self._restart(query, action)
        return self._restart(query, action)

    def _admit(self, query: RestartableQuery, action: SetAdmission) -> ActionReceipt:
        in_force = query.admission
        if in_force is None:
            return ActionReceipt(action, Outcome.REFUSED, "its source has no gate")
        query.admit(Admission(action.rows_per_trigger, in_force.interval_s))
        return ActionReceipt(action, Outcome.DONE)

    def _restart(self, query: RestartableQuery, action: SetParallelism | SetBatchInterval) -> ActionReceipt:
        if isinstance(action, SetParallelism):
            if action.operator in self._book.stateful_operators(action.application):
                note = "the operator keeps state: its parallelism changes by repartitioning the state, not by a restart"
                return ActionReceipt(action, Outcome.REFUSED, note)
            settings = query.settings.with_parallelism(action.operator, action.parallelism)
        else:
            settings = query.settings.with_interval(action.interval_s)
        if settings == query.settings:
            return ActionReceipt(action, Outcome.DONE, "already so")
        return ActionReceipt(action, Outcome.DONE, pause_s=query.restart(settings))

    def _with_handles(self, sample: ApplicationSample) -> ApplicationSample:
        """Add what only the gate knows: can it be restarted, and what does its source let through?"""
        query = self.restartable.get(sample.name)
        if query is None:
            return sample
        answer, admission = query.gate_answer, query.admission
        if answer is None or admission is None:
            return replace(sample, restartable=True)
        return replace(
            sample,
            restartable=True,
            gated=True,
            admission_rows=admission.rows_per_trigger,
            arrival=ArrivalSample(answer.time_s, answer.arrived_rows),
        )
