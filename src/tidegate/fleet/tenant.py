"""One application on one host: it waits for the lease, runs the query under it, and releases it.

| phase | next phase | when |
|---|---|---|
| waiting | starting | the lease was free and has been taken |
| starting | running | the query has started; the epoch was checked right before |
| starting, running | failed | the query did not start, or ended by itself; tried again later |
| running | stopping | the application is no longer wanted here; it stops at a batch boundary |
| any under a lease | waiting | fenced: the query is killed at once |
| stopping | (gone) | the query has stopped and the lease is released |
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from tidegate.evaluate.measurement import MeasurementPlan
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.lease import Fenced, HeldLease, LeaseTerms, LeaseWatch
from tidegate.fleet.ports import Call, Life, Pause, Strands
from tidegate.fleet.vocabulary import ApplicationSpec, Assigned, Phase, Tenancy

logger = logging.getLogger("tidegate")

_LOOK_S = 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_FENCE_AT = 0.4  # share of the lease left at which the query is stopped, so that it ends before the lease does


@dataclass(frozen=True, slots=True)
class Figures:
    """What a host knows about an application that it runs."""

    load_slots: float | None = None
    latency_p99_s: float | None = None
    rows_done: int | None = None
    parallelism: dict[str, int] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    changes_alone: int = 0


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The inputs of one run of an application."""

    checkpoint: Path
    gate: Path
    lease: Path
    """The folder in which a newer epoch appears when the run has been replaced."""
    epoch: int
    """Increases with every run. A sink that remembers the highest epoch can reject a replaced run."""


class RunningQuery(Protocol):
    """A query that was started."""

    def failure(self) -> str | None:
        """Why it ended by itself; None while it runs."""
        ...

    def stop(self) -> None:
        """Stop between two batches."""
        ...

    def kill(self) -> None:
        """Stop immediately, whatever it is doing. Nothing of it runs when this returns."""
        ...


class QueryRunner(Protocol):
    """Runs the queries of a host: Spark, or a stand-in."""

    def start(self, spec: ApplicationSpec, order: RunOrder) -> RunningQuery:
        """Start the application from its checkpoint."""
        ...

    def clear(self, application: str) -> None:
        """After a failed start: stop whatever still runs of it. Raises if success is not certain."""
        ...

    def figures(self, application: str) -> Figures: ...

    def measure(self, plan: MeasurementPlan) -> None:
        """Measure this from now on, at this interval."""
        ...


class Tenant:
    """Drives one application in its own thread. Its owner says whether it is wanted and renews its lease."""

    def __init__(
        self,
        assigned: Assigned,
        folder: FleetFolder,
        terms: LeaseTerms,
        runner: QueryRunner,
        strands: Strands,
        announce: Callable[[], None],
    ) -> None:
        """`announce` tells the watchdog how long the lease lasts."""
        self.spec = assigned.spec
        self._folder = folder
        self._clock = folder.clock
        self._files = folder.lease(assigned.spec.name)
        self._terms = terms
        self._runner = runner
        self._strands = strands
        self._tell_watchdog = announce
        self._unwanted = threading.Event()
        self._fenced = threading.Event()
        self._never = threading.Event()
        self._lease: HeldLease | None = None
        self._query: RunningQuery | None = None
        self._hint = assigned
        self._failures = 0
        self._phase, self._since_s, self._note = Phase.WAITING, self._clock.wall_s(), ""
        self._strand = strands.begin(self._life(), f"tidegate-{self.spec.name}")

    @property
    def alive(self) -> bool:
        return self._strand.alive

    @property
    def expires_s(self) -> float | None:
        """Until when its query may run, on the steady clock; None if none runs."""
        lease = self._lease
        return None if lease is None else lease.expires_s

    @property
    def lease(self) -> HeldLease | None:
        """The lease under which its query runs; None while it waits."""
        return self._lease

    def hint(self, assigned: Assigned) -> None:
        """Receive the centre's newest information about the lease."""
        self._hint = assigned

    def dismiss(self) -> None:
        """It is no longer wanted here."""
        self._unwanted.set()

    def join(self, limit_s: float) -> bool:
        return self._strand.join(limit_s)

    def renew(self) -> None:
        """Renew the lease, or stop the query before the lease expires."""
        lease = self._lease
        if lease is None or self._fenced.is_set():
            return
        try:
            lease.renew()
        except Fenced as error:
            self._fence(str(error))
        except Exception as error:  # no error may keep the other leases from being renewed
            if lease.remaining_s < _FENCE_AT * self._terms.duration_s:
                self._fence(f"the lease cannot be renewed: {_line(error)}")

    def tenancy(self) -> Tenancy:
        """The current state, as the host sees it."""
        lease, running = self._lease, self._phase in {Phase.RUNNING, Phase.STOPPING}
        figures = self._runner.figures(self.spec.name) if running else Figures()
        return Tenancy(
            self.spec,
            self._phase,
            None if lease is None else lease.record.epoch,
            self._since_s,
            self._note,
            figures.load_slots,
            figures.latency_p99_s,
            figures.rows_done,
            figures.parallelism,
            figures.measured,
            figures.changes_alone,
        )

    def _life(self) -> Life:
        while not self._unwanted.is_set():
            lease = yield from self._await_lease()
            if lease is not None:
                self._fenced.clear()
                self._lease = lease
                try:
                    yield from self._run_under(lease)
                except Exception as error:
                    yield from self._await_the_watchdog(lease, error)
                self._query = None
                self._lease = None

    def _await_lease(self) -> Generator[Pause | Call, None, HeldLease | None]:
        """Wait until the lease is ours, or the application is no longer wanted."""
        watch = LeaseWatch(self._clock, self._terms.duration_s)
        self._enter(Phase.WAITING)
        while not self._unwanted.is_set():
            try:
                record = self._files.read()
                hint = self._hint
                watch.look(record, hint.unchanged_s if record is not None and record == hint.lease else 0.0)
                if watch.free and (lease := self._files.take(self._terms, record)) is not None:
                    return lease
                self._note = f"epoch {record.epoch} is {record.owner}'s" if record is not None else ""
            except (OSError, ValueError) as error:
                self._note = f"the lease cannot be read: {error}"
            yield Pause(_LOOK_S, self._unwanted)
        return None

    def _run_under(self, lease: HeldLease) -> Life:
        self._enter(Phase.STARTING)
        began_s = self._clock.steady_s()
        name, epoch = self.spec.name, lease.record.epoch
        try:
            self._folder.begin_run(name, epoch)
            order = self._order(lease)
            self._announce()
            lease.check()
        except Exception as error:  # nothing has been started
            yield from self._give_up(lease, f"did not start: {_line(error)}", began_s)
            return
        try:
            query: RunningQuery = yield Call(partial(self._runner.start, self.spec, order))
        except Exception as error:  # user code may raise anything; it is reported and tried again later
            # The JVM may have started the query anyway. Unless that can be ruled out, the lease is kept.
            yield Call(partial(self._runner.clear, name))
            yield from self._give_up(lease, f"did not start: {_line(error)}", began_s)
            return
        self._query = query
        if self._fenced.is_set():
            yield Call(query.kill)
            return
        self._enter(Phase.RUNNING)
        while not self._fenced.is_set():
            if self._unwanted.is_set():
                self._enter(Phase.STOPPING)
                yield Call(query.stop)
                break
            if (failure := query.failure()) is not None:
                yield from self._give_up(lease, failure, began_s)
                return
            yield Pause(_LOOK_S, self._fenced)
        if self._fenced.is_set():
            yield Call(query.kill)  # again, in case the fence came before the query was known
        else:
            self._release(lease)

    def _announce(self) -> None:
        """Called before anything starts: an agent that hangs after the start could no longer tell its watchdog."""
        self._tell_watchdog()

    def _order(self, lease: HeldLease) -> RunOrder:
        folder, name, epoch = self._folder, self.spec.name, lease.record.epoch
        return RunOrder(folder.checkpoint(name), folder.gate(name, epoch), folder.lease_path(name), epoch)

    def _await_the_watchdog(self, lease: HeldLease, error: Exception) -> Life:
        """It is unknown whether the query has stopped. Let its lease expire; the watchdog then kills the host."""
        logger.error(
            "%s: its query does not stop (%s); the host is killed when the lease expires", self.spec.name, _line(error)
        )
        self._fenced.set()
        yield Pause(max(0.0, lease.remaining_s) + self._terms.duration_s, self._never)

    def _release(self, lease: HeldLease) -> None:
        try:
            lease.release()
        except (Fenced, OSError) as error:  # the lease expires by itself
            logger.warning("%s: its lease could not be released: %s", self.spec.name, error)

    def _fence(self, why: str) -> None:
        """Kill the query from another thread, because the application's own thread may be in a slow stop."""
        logger.warning("%s: fenced, stopping its query: %s", self.spec.name, why)
        self._note = why
        self._fenced.set()
        query = self._query
        if query is not None:
            self._strands.begin(self._kill(query), f"tidegate-fence-{self.spec.name}")

    def _kill(self, query: RunningQuery) -> Life:
        try:
            yield Call(query.kill)
        except Exception as error:  # the watchdog kills it
            logger.error("%s: its query cannot be killed: %s", self.spec.name, _line(error))

    def _give_up(self, lease: HeldLease, why: str, began_s: float) -> Life:
        """Nothing runs. Release the lease and wait, longer after each consecutive failure."""
        self._release(lease)
        ran_s = self._clock.steady_s() - began_s
        self._failures = 0 if ran_s > 2 * _LONGEST_PAUSE_S else self._failures + 1
        self._enter(Phase.FAILED, why)
        self._lease = None
        logger.warning("%s: %s", self.spec.name, why)
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(max(self._failures - 1, 0), 16))
        yield Pause(pause_s, self._unwanted)

    def _enter(self, phase: Phase, note: str = "") -> None:
        self._phase, self._since_s, self._note = phase, self._clock.wall_s(), note


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
