"""The live Spark context behind the `Cluster` port: observations from listener and status store, actions on the pool
and on queries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
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
from tidegate.spark.applications import ApplicationBook
from tidegate.spark.capability import Capability
from tidegate.spark.hosts import HostWatch
from tidegate.spark.pool import ExecutorPoolKeeper
from tidegate.spark.pools import SchedulerPools
from tidegate.spark.queries import RestartableQuery
from tidegate.spark.rebalancer import Note, Rebalancer
from tidegate.spark.watcher import Watcher

logger = logging.getLogger("tidegate")

Restart = SetParallelism | SetBatchInterval | SetAdmission
_GAP = "gap"
_NO_LIMIT = "its source has no gate, and its build does not ask for settings.limit(…)"
_NOT_OURS = "the query was not started through gate.start, so it cannot be changed while it runs"


class SparkCluster:
    """Watches and steers one Spark context."""

    def __init__(self, spark: SparkSession, policy: Policy, note: Note = lambda event, text: None) -> None:
        self._watcher = Watcher(spark)
        self._pool = ExecutorPoolKeeper(spark.sparkContext, self._watcher, policy, may_act=policy.mode is Mode.APPLY)
        self._book = ApplicationBook(self._watcher)
        self._rebalancer = Rebalancer(note)
        self._host = HostWatch(works_here=(spark.sparkContext.master or "").startswith("local"))
        self._watcher.start()
        self.restartable: dict[str, RestartableQuery] = {}
        self.pools = SchedulerPools(spark.sparkContext, {name: rule.weight for name, rule in policy.classes.items()})

    def observe(self) -> Observation:
        self._pool.converge(self)
        self.pools.enforce()
        look = self._watcher.look()
        applications = tuple(self._with_handles(sample) for sample in self._book.samples(look))
        return Observation(time.time(), applications, self._pool.sample(tuple(look.executors)), (self._host.sample(),))

    def apply(self, decision: Decision) -> Receipt:
        """Every action is tried; one that fails does not keep the others from being done.

        All that restarts one application goes into one rebalance: the pause is paid once.
        """
        restarts: dict[str, list[Restart]] = {}
        receipts: list[ActionReceipt] = []
        for action in decision.actions:
            if isinstance(action, SetParallelism) or (
                isinstance(action, SetBatchInterval | SetAdmission) and not self._gated(action.application)
            ):
                restarts.setdefault(action.application, []).append(action)
            else:
                receipts += self._tried([action], self._act, action)
        for application, actions in restarts.items():
            receipts += self._tried(actions, self._rebalance, application, actions)
        return Receipt(tuple(receipts))

    @property
    def rebalancing(self) -> bool:
        """Is any query being restarted?"""
        return any(self._rebalancer.busy(name) for name in list(self.restartable))

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
                query.close_gate(_GAP)

    def resume_batches(self) -> None:
        for query in list(self.restartable.values()):
            query.open_gate(_GAP)

    def capabilities(self) -> tuple[Capability, ...]:
        """What can be turned here, and what stands in the way of the rest."""
        return (self.pools.capability(), *(_admission_of(query) for query in list(self.restartable.values())))

    def close(self) -> None:
        """Take everything back; what cannot be taken back keeps nothing else from it."""
        releases = (query.release for query in list(self.restartable.values()))
        for undo in (self._rebalancer.close, self.resume_batches, self.pools.restore, *releases, self._watcher.stop):
            try:
                undo()
            except Exception as error:
                text = next(iter(str(error).strip().splitlines()), type(error).__name__)
                logger.warning("something of the control could not be taken back: %s", text)

    def _tried(
        self, actions: Sequence[Action], act: Callable[..., list[ActionReceipt]], *arguments: object
    ) -> list[ActionReceipt]:
        try:
            return act(*arguments)
        except Exception as error:  # the job goes on; the journal says what failed
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            logger.warning("%s failed: %s", ", ".join(map(str, actions)), text)
            return [ActionReceipt(action, Outcome.FAILED, text) for action in actions]

    def _act(self, action: Action) -> list[ActionReceipt]:
        if isinstance(action, ScaleExecutors):
            return [self._pool.scale(action, self)]
        if isinstance(action, SetShare):
            return [self.pools.set_share(action)]
        query = self.restartable.get(action.application)
        if query is None:
            return [ActionReceipt(action, Outcome.REFUSED, _NOT_OURS)]
        admission = query.admission
        if admission is None:
            return [ActionReceipt(action, Outcome.REFUSED, _NO_LIMIT)]
        if isinstance(action, SetAdmission):
            query.admit(replace(admission, rows_per_trigger=action.rows_per_trigger))
        elif isinstance(action, SetBatchInterval):
            query.admit(replace(admission, interval_s=action.interval_s))
        return [ActionReceipt(action, Outcome.DONE, "through the gate, without a restart")]

    def _gated(self, application: str) -> bool:
        query = self.restartable.get(application)
        return query is not None and query.gated

    def _rebalance(self, application: str, actions: list[Restart]) -> list[ActionReceipt]:
        """One restart for everything that is asked of an application."""
        query = self.restartable.get(application)
        if query is None:
            return [ActionReceipt(action, Outcome.REFUSED, _NOT_OURS) for action in actions]
        if self._rebalancer.busy(application):
            return [ActionReceipt(action, Outcome.UNDER_WAY, "another rebalance is under way") for action in actions]
        settings, partitions = query.settings, None
        stateful = self._book.stateful_operators(application)
        for action in actions:
            if isinstance(action, SetBatchInterval):
                settings = settings.with_interval(action.interval_s)
                continue
            if isinstance(action, SetAdmission):
                if not query.limited:
                    return [ActionReceipt(one, Outcome.REFUSED, _NO_LIMIT) for one in actions]
                settings = settings.with_limit(action.rows_per_trigger)
                continue
            settings = settings.with_parallelism(action.operator, action.parallelism)
            if action.operator in stateful:
                partitions = action.parallelism
        if partitions is not None:
            # all stateful operators of a query share one number of partitions
            for operator in stateful:
                settings = settings.with_parallelism(operator, partitions)
        if settings == query.settings:
            return [ActionReceipt(action, Outcome.DONE, "already so") for action in actions]
        self._rebalancer.submit(query, settings, partitions)
        return [ActionReceipt(action, Outcome.UNDER_WAY) for action in actions]

    def _with_handles(self, sample: ApplicationSample) -> ApplicationSample:
        """Add what only the gate knows: can it be restarted, and what does its source let through?"""
        query = self.restartable.get(sample.name)
        if query is None:
            return sample
        sample = replace(
            sample,
            restartable=True,
            limited=query.limited,
            admission_rows=query.settings.rows_per_trigger,
            rebalancing=self._rebalancer.busy(sample.name),
            rebalance=self._rebalancer.report(sample.name),
        )
        answer, admission = query.gate_answer, query.admission
        if answer is None or admission is None:
            return sample
        return replace(
            sample,
            gated=True,
            admission_rows=admission.rows_per_trigger,
            arrival=ArrivalSample(answer.time_s, answer.arrived_rows),
        )


def _admission_of(query: RestartableQuery) -> Capability:
    knob = f"admission of {query.name}"
    if query.gated:
        return Capability(knob, True, "through the gate of its source, without a restart")
    if query.limited:
        return Capability(knob, True, "through a restart with another limit, when it pays")
    return Capability(knob, False, _NO_LIMIT)
