"""The live Spark context behind the `Cluster` port: observations from listeners, actions on the pool and on queries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidegate.adapters.host.hostwatch import HostWatch
from tidegate.adapters.spark.applications import ApplicationBook
from tidegate.adapters.spark.backgroundrebalance import Note, Rebalancer
from tidegate.adapters.spark.executors import ExecutorPoolKeeper, works_on_this_machine
from tidegate.adapters.spark.kafka import KafkaWatch
from tidegate.adapters.spark.limits import SourceLimits, admission_of
from tidegate.adapters.spark.schedulerpools import SchedulerPools
from tidegate.adapters.spark.sparkfeatures import probe
from tidegate.adapters.spark.stateplaces import StatePlaces
from tidegate.adapters.spark.unmeasured import Unmeasured
from tidegate.adapters.spark.warmup import Rehearsals
from tidegate.adapters.spark.watcher import LimitState, Watcher
from tidegate.domain import (
    Action,
    ActionReceipt,
    ApplicationSample,
    ArrivalSample,
    Mode,
    MoveState,
    Observation,
    Outcome,
    Receipt,
    ScaleExecutors,
    SetAdmission,
    SetBatchInterval,
    SetParallelism,
    SetShare,
    Targets,
)
from tidegate.domain.capability import Capability
from tidegate.domain.policy import Policy
from tidegate.domain.resolution import rounded

if TYPE_CHECKING:
    from tidegate.adapters.spark.restartablequery import RestartableQuery

logger = logging.getLogger("tidegate")

_GAP = "gap"
_GAP_AT_MOST_S = 20.0
_FILE_SINK = (
    "repartitioning state takes a batch that Spark's file sink never sees, and its log fails on the gap; write to "
    "Delta or Kafka, or with foreachBatch"
)
_NO_REPARTITION = "this Spark cannot repartition state (4.2 can); the executors and the batch interval can be changed"
_NOT_OURS = "the query was not started through gate.start, so it cannot be changed while it runs"


class SparkCluster:
    """Observes and controls one Spark context."""

    def __init__(
        self,
        spark: SparkSession,
        policy: Policy,
        note: Note = lambda event, text: None,
        bound_first_batches: bool = False,
    ) -> None:
        """`bound_first_batches`: new queries start with a limit, which the controller raises as it learns more."""
        self._spark = spark.sparkContext
        # Limits come first, because a query that was started a moment ago is about to plan its first batch.
        self.limits = SourceLimits(spark)
        if bound_first_batches and policy.mode is Mode.APPLY and policy.knobs.admission:
            self.limits.bound_first_batches(but=[name for name in policy.applications if policy.ignores(name)])
        self._watcher = Watcher(spark)
        self.limits.connect(self._watcher)
        self._features = probe(spark)
        may_act, rehearsals = policy.mode is Mode.APPLY, Rehearsals(spark)
        self._pool = ExecutorPoolKeeper(spark.sparkContext, self._watcher, policy, may_act, rehearsals)
        self._kafka = KafkaWatch(spark, self._watcher, self.limits, policy.consumer_groups)
        self._book = ApplicationBook(self._watcher, self.limits, self._kafka)
        self._states: dict[str, LimitState] = {}
        self._rebalancer = Rebalancer(note)
        self._unmeasured = Unmeasured(note)
        rocksdb = self._features.rocksdb_reloads or policy.guards.move_old_rocksdb
        self._state = StatePlaces(spark.sparkContext, may_move_rocksdb=rocksdb)
        self._moving = False
        self._host = HostWatch(works_here=works_on_this_machine(spark.sparkContext))
        self._watcher.start()
        self.restartable: dict[str, RestartableQuery] = {}
        self.pools = SchedulerPools(spark.sparkContext, {name: rule.weight for name, rule in policy.classes.items()})

    def observe(self) -> Observation:
        """Observe without changing anything."""
        look = self._watcher.look()
        samples = self._book.samples(look)
        self._unmeasured.look(samples)
        self._state.look(self._book.stateful_runs(), look.executors)
        applications = tuple(self._with_handles(sample) for sample in samples)
        names = {query.run_id: query.name or f"query-{query.query_id[:8]}" for query in look.queries}
        self._states = {names[run_id]: state for run_id, state in look.limits.items() if run_id in names}
        pool = self._pool.sample(tuple(look.executors))
        return rounded(Observation(time.time(), applications, pool, (self._host.sample(),)))

    def converge(self, targets: Targets) -> Receipt:
        """Drive the context towards the targets. Every target is tried, even if another one fails.

        All changes that restart one application go into one rebalance, so that it pauses only once.
        """
        self._pool.take_charge()
        self.limits.renew()
        receipts: list[ActionReceipt] = []
        for application, places in targets.state.items():
            moves = [MoveState(application, *place) for place in places.items()]
            receipts += self._tried(moves, self._place_state, application, places)
        self._moving = any(answer.outcome in {Outcome.DONE, Outcome.UNDER_WAY} for answer in receipts)
        if targets.executors is not None:
            receipts += self._tried([ScaleExecutors(targets.executors)], self._scale, targets.executors)
        restarts: dict[str, list[SetParallelism]] = {}
        for action in targets.actions():
            if isinstance(action, ScaleExecutors | MoveState):
                continue
            if isinstance(action, SetParallelism):
                restarts.setdefault(action.application, []).append(action)
            else:
                receipts += self._tried([action], self._turn, action)
        self.pools.enforce()
        for application, actions in restarts.items():
            receipts += self._tried(actions, self._rebalance, application, actions)
        order = {action: place for place, action in enumerate(targets.actions())}
        return Receipt(tuple(sorted(receipts, key=lambda receipt: order[receipt.action])))

    def release(self) -> None:
        """Undo every change. A failure does not keep the other changes from being undone."""
        if self._spark._jsc is None or self._spark._jsc.sc().isStopped():
            return  # everything ended with the context
        queries = [query.release for query in list(self.restartable.values())]
        undoings = (
            self._rebalancer.close,
            self._state.release,
            self.resume_batches,
            self.limits.release,
            self.pools.restore,
        )
        self._undo(*undoings, *queries, self._pool.release)

    @property
    def rebalancing(self) -> bool:
        """Is any query being restarted?"""
        return any(self._rebalancer.busy(name) for name in list(self.restartable))

    def between_batches(self) -> bool:
        """Is no query in the middle of a batch?"""
        return self._watcher.between_batches()

    def hold_batches(self) -> None:
        """Pause the queries: no further batch starts until `resume_batches`.

        Done only if every query has a gate. Otherwise the queries without a gate would leave no pause to wait for.
        """
        ours = {query.name: query for query in list(self.restartable.values()) if query.query.isActive}
        if all(state.kind or (name in ours and ours[name].gated) for name, state in self._states.items()):
            for name in self._states:
                if name in ours:
                    ours[name].close_gate(_GAP)
                else:
                    self.limits.pause(name, _GAP, _GAP_AT_MOST_S)

    def resume_batches(self) -> None:
        for name in self._states:
            self.limits.resume(name, _GAP)
        for query in list(self.restartable.values()):
            query.open_gate(_GAP)

    def state_on(self, executors: set[str]) -> tuple[int, bool]:
        """Movable state partitions on these executors, and whether any are being moved now."""
        return self._state.held_by(executors), self._moving

    def capabilities(self) -> tuple[Capability, ...]:
        """Which knobs work here, and why the others do not."""
        admission = (self._admission(name, state) for name, state in self._states.items())
        here = (self._pool.capability(), self.pools.capability(), self._host.capability())
        return (*self._features.capabilities(), *here, *admission, *self._state.capabilities())

    def close(self) -> None:
        """Stop listening. The context is not used after this."""
        self._undo(self._kafka.close, self._watcher.stop)

    def _undo(self, *undoings: Callable[[], None]) -> None:
        for undo in undoings:
            try:
                undo()
            except Exception as error:
                text = next(iter(str(error).strip().splitlines()), type(error).__name__)
                logger.warning("a change could not be undone: %s", text)

    def _tried(
        self, actions: Sequence[Action], act: Callable[..., list[ActionReceipt]], *arguments: object
    ) -> list[ActionReceipt]:
        try:
            return act(*arguments)
        except Exception as error:  # the job goes on; the journal records the failure
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            logger.warning("%s failed: %s", ", ".join(map(str, actions)), text)
            return [ActionReceipt(action, Outcome.FAILED, text) for action in actions]

    def _scale(self, target: int) -> list[ActionReceipt]:
        receipt = self._pool.converge(target, self)
        return [] if receipt is None else [receipt]

    def _place_state(self, application: str, places: Mapping[int, str]) -> list[ActionReceipt]:
        return self._state.converge(application, places, self._pool.marked(self._watcher.executors()))

    def _turn(self, action: Action) -> list[ActionReceipt]:
        """Set a knob that needs no restart. Empty if it is already set."""
        if isinstance(action, SetShare):
            receipt = self.pools.set_share(action)
            return [] if receipt is None else [receipt]
        assert isinstance(action, SetAdmission | SetBatchInterval)
        query = self.restartable.get(action.application)
        admission = query.admission if query is not None else None
        if query is None or admission is None:
            return self._limit(action)
        if isinstance(action, SetAdmission):
            wanted = replace(admission, rows_per_trigger=action.rows_per_trigger)
        else:
            wanted = replace(admission, interval_s=action.interval_s)
        if wanted == admission:
            return []
        query.admit(wanted)
        return [ActionReceipt(action, Outcome.DONE, "through the gate, without a restart")]

    def _limit(self, action: SetAdmission | SetBatchInterval) -> list[ActionReceipt]:
        """Set a limit or an interval inside the driver. Repeated at every step, so that it also covers the next run."""
        name, state = action.application, self._states.get(action.application)
        if state is not None:
            objection = state.objection if isinstance(action, SetAdmission) else state.refusal
            if objection:
                return [ActionReceipt(action, Outcome.REFUSED, objection)]
        if state is None and not self.limits.asked(name):
            return [ActionReceipt(action, Outcome.REFUSED, f"no query named {name!r} runs")]
        if isinstance(action, SetAdmission):
            news = self.limits.limit(name, action.rows_per_trigger)
        else:
            news = self.limits.interval(name, action.interval_s)
        return [ActionReceipt(action, Outcome.DONE, "live, without a restart")] if news else []

    def _admission(self, name: str, state: LimitState) -> Capability:
        query = self.restartable.get(name)
        if query is not None and query.gated:
            return Capability(f"admission of {name}", True, "through the gate of its source, without a restart")
        return admission_of(name, state)

    def _rebalance(self, application: str, actions: list[SetParallelism]) -> list[ActionReceipt]:
        """One restart for all changes of an application."""
        query = self.restartable.get(application)
        if query is None:
            return [ActionReceipt(action, Outcome.REFUSED, _NOT_OURS) for action in actions]
        if self._rebalancer.busy(application):
            return [ActionReceipt(action, Outcome.UNDER_WAY, "a rebalance is in progress") for action in actions]
        failed = self._rebalancer.failed.pop(application, None)
        if failed is not None:
            return [ActionReceipt(action, Outcome.FAILED, failed) for action in actions]
        settings, partitions = query.settings, None
        stateful = self._book.stateful_operators(application)
        for action in actions:
            settings = settings.with_parallelism(action.operator, action.parallelism)
            if action.operator in stateful:
                partitions = action.parallelism
        if partitions is not None and query.writes_files:
            return [ActionReceipt(action, Outcome.REFUSED, _FILE_SINK) for action in actions]
        if partitions is not None:
            # all stateful operators of a query share one number of partitions
            for operator in stateful:
                settings = settings.with_parallelism(operator, partitions)
            if not self._features.state_repartition and settings != query.settings:
                return [ActionReceipt(action, Outcome.REFUSED, _NO_REPARTITION) for action in actions]
        if settings == query.settings:
            return []
        self._rebalancer.submit(query, settings, partitions)
        return [ActionReceipt(action, Outcome.UNDER_WAY) for action in actions]

    def _with_handles(self, sample: ApplicationSample) -> ApplicationSample:
        """Add where its state is, whether it can be restarted, and the limit of its source."""
        if places := self._state.places(sample.name):
            sample = replace(sample, state_places=places, state_movable=self._state.movable(sample.name))
        query = self.restartable.get(sample.name)
        if query is None:
            return sample
        sample = replace(
            sample,
            restartable=True,
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
