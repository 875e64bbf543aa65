"""Where the state partitions of every query are, and how they are moved to another executor.

A move takes place between two batches, for all operators and stores of a partition together (see `Placement.java`).
The next batch's task runs on the new executor and loads the state from the checkpoint. Nothing is restarted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from tidegate.adapters.spark.applications import StatefulRun
from tidegate.adapters.spark.janino import compiled
from tidegate.domain import ActionReceipt, ExecutorSample, MoveState, Outcome
from tidegate.domain.capability import Capability

_PATIENCE_MS = 60_000
"""A move that waits longer than this for the end of a batch is requested again."""
_MOST_BATCHES = 5
"""A move counts as failed after Spark has run the partition elsewhere for this many batches."""
_LOOK_AGAIN_S = 10.0
"""How often places are read while nothing moves. Spark may run a task elsewhere if the slots are taken."""
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_UNLOAD = "spark.sql.streaming.stateStore.unloadOnCommit"


@dataclass(slots=True)
class _Known:
    """What is known about the state of one run."""

    run: StatefulRun
    java: Any
    """Our `Placement` in the driver; None if it could not be created."""
    refusal: str | None
    """Why its state cannot be moved."""
    wishes: dict[int, tuple[str, int]] = field(default_factory=dict)
    """The requested executor of each partition, and the last batch before the request."""
    next: tuple[str, ...] = ()
    """Where the next batch will look for each partition."""
    last: tuple[str, ...] = ()
    """Where the last batch ran each partition."""
    there: frozenset[str] = frozenset()
    """The executors registered at that time."""
    looked_s: float = -_LOOK_AGAIN_S

    def look(self, there: frozenset[str]) -> None:
        """Read all places: at once if something may have changed, otherwise now and then.

        The coordinator is asked about every store, and a query may have hundreds.
        """
        now_s = time.monotonic()
        settled = there == self.there and not self.wishes and all(self.next)
        if self.java is None or (settled and now_s - self.looked_s < _LOOK_AGAIN_S):
            return
        self.there, self.looked_s = there, now_s
        self.next, self.last = (
            tuple(place if place in there else "" for place in part.split(","))
            for part in str(self.java.where()).split(";")
        )
        arrived = [place for place, (executor, _) in self.wishes.items() if self.last[place] == executor]
        for partition in arrived:
            del self.wishes[partition]

    def in_vain(self, partition: int, executor: str) -> bool:
        """Was this requested long ago, but Spark has run the partition elsewhere ever since?"""
        wish = self.wishes.get(partition)
        if wish is None or wish[0] != executor:
            wish = self.wishes[partition] = (executor, self.run.last_batch)
        if self.run.last_batch - wish[1] <= _MOST_BATCHES:
            return False
        del self.wishes[partition]
        return True


class StatePlaces:
    """The state partitions of all queries of a context."""

    def __init__(self, sc: SparkContext, may_move_rocksdb: bool) -> None:
        self._sc = sc
        self._may_move_rocksdb = may_move_rocksdb
        self._known: dict[str, _Known] = {}
        """By application."""

    def look(self, runs: Sequence[StatefulRun], registered: Sequence[ExecutorSample]) -> None:
        """Update all places. State on an executor that is gone is nowhere."""
        before, self._known = self._known, {}
        for run in runs:
            known = before.get(run.name)
            if known is None or known.run.run_id != run.run_id:
                known = self._begin(run)
            known.run = run
            self._known[run.name] = known
            known.look(frozenset(executor.id for executor in registered))

    def places(self, application: str) -> tuple[str, ...]:
        """The executor that ran each partition in the last batch."""
        known = self._known.get(application)
        return known.last if known is not None else ()

    def movable(self, application: str) -> bool:
        known = self._known.get(application)
        return known is not None and known.refusal is None

    def held_by(self, executors: set[str]) -> int:
        """Movable partitions that the next batch will run on these executors."""
        movable = [known for known in self._known.values() if known.refusal is None]
        return sum(place in executors for known in movable for place in known.next)

    def converge(
        self, application: str, wanted: Mapping[int, str], registered: Sequence[ExecutorSample]
    ) -> list[ActionReceipt]:
        """Request moves. Partitions that are already in place yield no receipt."""
        known = self._known.get(application)
        if known is not None:
            known.wishes = {place: wish for place, wish in known.wishes.items() if wanted.get(place) == wish[0]}
            known.look(frozenset(executor.id for executor in registered))
        answers: list[ActionReceipt] = []
        moves: dict[int, str] = {}
        for partition, executor in wanted.items():
            action = MoveState(application, partition, executor)
            refusal = _refusal(action, known, registered)
            if known is None or refusal is not None:
                answers.append(ActionReceipt(action, Outcome.REFUSED, refusal or ""))
            elif known.next[partition] == executor:
                continue
            elif known.in_vain(partition, executor):
                text = f"Spark has run it elsewhere for {_MOST_BATCHES} batches; the slots there may be taken"
                answers.append(ActionReceipt(action, Outcome.FAILED, text))
            else:
                moves[partition] = executor
        if known is not None and moves:
            outcome, note = _tell(known, moves, {executor.id: executor.host for executor in registered})
            answers += [ActionReceipt(MoveState(application, *move), outcome, note) for move in moves.items()]
        return answers

    def release(self) -> None:
        """Cancel the moves that still wait. State stays where it is, as executors do."""
        for known in self._known.values():
            known.wishes.clear()
            if known.java is not None:
                known.java.forget()

    def capabilities(self) -> tuple[Capability, ...]:
        """Whether the state of each query can be moved, and if not, why."""
        how = "between two batches, one partition at a time"
        return tuple(
            Capability(f"state of {name}", known.refusal is None, known.refusal or how)
            for name, known in self._known.items()
        )

    def _begin(self, run: StatefulRun) -> _Known:
        try:
            return _Known(run, self._placement(run), self._why_not(run))
        except (Py4JError, AttributeError, TypeError) as error:
            return _Known(run, None, f"this Spark's internals are not as expected ({type(error).__name__})")

    def _placement(self, run: StatefulRun) -> Any:
        gateway: Any = self._sc._gateway
        coordinator = run.java.sparkSession().sessionState().streamingQueryManager().stateStoreCoordinator()
        arguments = (
            run.java,
            coordinator,
            run.java.lastExecution().checkpointLocation(),
            run.operators,
            run.partitions,
            run.java.awaitProgressLock(),
            run.java.awaitProgressLockCondition(),
        )
        array = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
        for place, argument in enumerate(arguments):
            array[place] = argument
        return compiled(gateway, "Placement").getConstructors()[0].newInstance(array)

    def _why_not(self, run: StatefulRun) -> str | None:
        """Why state cannot be moved; None if it can."""
        if self._sc._jsc.sc().isLocal():
            return "a local master has only one executor, in the driver"
        context = self._sc._jsc.sc().conf()
        if str(context.get("spark.speculation", "false")) == "true":
            return "speculation may run a partition twice at once (spark.speculation)"
        settings = run.java.sparkSession().conf()
        if str(settings.get(_UNLOAD, "false")) == "true":
            return f"state is unloaded after every batch ({_UNLOAD})"
        rocksdb = "rocksdb" in str(settings.get(_PROVIDER, "")).lower()
        if rocksdb and not self._may_move_rocksdb:
            return (
                f"RocksDB state has reload bugs in Spark {self._sc.version} (fixed in 4.1: SPARK-49770, SPARK-52637); "
                "set guards.move_old_rocksdb: true to move it anyway"
            )
        return None


def _tell(known: _Known, moves: Mapping[int, str], hosts: Mapping[str, str]) -> tuple[Outcome, str]:
    told = ",".join(f"{partition}:{executor}:{hosts[executor]}" for partition, executor in moves.items())
    if not known.java.move(told, _PATIENCE_MS):
        return Outcome.UNDER_WAY, "when the running batch is done"
    known.next = tuple(moves.get(partition, place) for partition, place in enumerate(known.next))
    return Outcome.DONE, "its state is loaded in the next batch"


def _refusal(action: MoveState, known: _Known | None, registered: Sequence[ExecutorSample]) -> str | None:
    if known is None:
        return f"no application named {action.application} has state"
    if known.refusal is not None:
        return known.refusal
    if action.partition >= len(known.next):
        return f"{action.application} has {len(known.next)} state partitions"
    executor = next((executor for executor in registered if executor.id == action.executor), None)
    if executor is None:
        return f"no executor {action.executor} is registered"
    if executor.retiring:
        return f"executor {action.executor} is about to retire"
    return None
