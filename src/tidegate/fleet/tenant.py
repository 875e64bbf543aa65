"""One application on one host: it waits for the lease, runs the query under it, and gives it back.

| phase | goes to | when |
|---|---|---|
| waiting | starting | the lease was free, and is ours |
| starting | running | the query has started, the epoch being checked right before |
| starting, running | failed | the query did not start, or has ended by itself; tried again after a while |
| running | stopping | the application is not wanted here any more: a stop at a batch boundary |
| any under a lease | waiting | fenced: the query is killed at once |
| stopping | (gone) | the query has stopped and the lease is released |
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.lease import Fenced, HeldLease, LeaseWatch
from tidegate.fleet.state import ApplicationSpec, Assigned, Phase, Tenancy
from tidegate.monitor.measurement import MeasurementPlan

logger = logging.getLogger("tidegate")

_LOOK_S = 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_FENCE_AT = 0.4  # of the lease left: then the query is stopped, so that it has ended when the lease has


@dataclass(frozen=True, slots=True)
class Figures:
    """What a host knows of an application that it runs."""

    load_slots: float | None = None
    latency_p99_s: float | None = None
    rows_done: int | None = None
    parallelism: dict[str, int] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)


class RunningQuery(Protocol):
    """A query that was started."""

    def failure(self) -> str | None:
        """Why it has ended by itself; None while it runs."""
        ...

    def stop(self) -> None:
        """Stop between two batches."""
        ...

    def kill(self) -> None:
        """Stop now, whatever it is doing; returns when nothing of it runs any more."""
        ...


class QueryRunner(Protocol):
    """What a host runs queries with: Spark, or a stand-in."""

    def start(self, spec: ApplicationSpec, checkpoint: Path, gate: Path, tasks: Mapping[str, int]) -> RunningQuery:
        """Start the application from its checkpoint, its operators with `tasks` tasks where that is said."""
        ...

    def figures(self, application: str) -> Figures: ...

    def measure(self, plan: MeasurementPlan) -> None:
        """Measure so from now on: what, and how often."""
        ...


class Tenant:
    """Drives one application with a thread of its own; whoever holds it says what is wanted and renews its lease."""

    def __init__(
        self, assigned: Assigned, folder: FleetFolder, owner: str, lease_s: float, runner: QueryRunner
    ) -> None:
        self.spec = assigned.spec
        self._folder = folder
        self._files = folder.lease(assigned.spec.name)
        self._owner = owner
        self._lease_s = lease_s
        self._runner = runner
        self._unwanted = threading.Event()
        self._fenced = threading.Event()
        self._lease: HeldLease | None = None
        self._query: RunningQuery | None = None
        self._hint = assigned
        self._failures = 0
        self._phase, self._since_s, self._note = Phase.WAITING, time.time(), ""
        self._thread = threading.Thread(target=self._run, name=f"tidegate-{self.spec.name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def expires_s(self) -> float | None:
        """Until when its query may run, on the steady clock; None where none runs."""
        lease = self._lease
        return None if lease is None else lease.expires_s

    def hint(self, assigned: Assigned) -> None:
        """The centre's newest word on the lease."""
        self._hint = assigned

    def dismiss(self) -> None:
        """It is not wanted here any more."""
        self._unwanted.set()

    def join(self, limit_s: float) -> bool:
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def renew(self) -> None:
        """Renew the lease, or stop the query before it runs out."""
        lease = self._lease
        if lease is None or self._fenced.is_set():
            return
        try:
            lease.renew()
        except Fenced as error:
            self._fence(str(error))
        except OSError as error:
            if lease.remaining_s < _FENCE_AT * self._lease_s:
                self._fence(f"the lease cannot be renewed: {error}")

    def tenancy(self) -> Tenancy:
        """As the host sees it now."""
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
        )

    def _run(self) -> None:
        while not self._unwanted.is_set():
            lease = self._await_lease()
            if lease is not None:
                self._fenced.clear()
                self._lease = lease
                try:
                    self._run_under(lease)
                except Exception as error:
                    self._await_the_watchdog(lease, error)
                self._query = None
                self._lease = None

    def _await_lease(self) -> HeldLease | None:
        """Until the lease is ours, or the application is not wanted any more."""
        watch = LeaseWatch()
        self._enter(Phase.WAITING)
        while not self._unwanted.is_set():
            try:
                record = self._files.read()
                hint = self._hint
                watch.look(record, hint.unchanged_s if record is not None and record == hint.lease else 0.0)
                if watch.free and (lease := self._files.take(self._owner, self._lease_s, record)) is not None:
                    return lease
                self._note = f"epoch {record.epoch} is {record.owner}'s" if record is not None else ""
            except (OSError, ValueError) as error:
                self._note = f"the lease cannot be read: {error}"
            self._unwanted.wait(_LOOK_S)
        return None

    def _run_under(self, lease: HeldLease) -> None:
        self._enter(Phase.STARTING)
        began_s = time.monotonic()
        try:
            lease.check()
            folder, name = self._folder, self.spec.name
            gate = folder.gate(name, lease.record.epoch)
            query = self._runner.start(self.spec, folder.checkpoint(name), gate, folder.tasks(name))
        except Exception as error:  # whatever a user's code raises; it is told, and tried again later
            self._release(lease)
            self._pause(f"did not start: {_line(error)}", began_s)
            return
        self._query = query
        if self._fenced.is_set():
            query.kill()
            return
        self._enter(Phase.RUNNING)
        while not self._fenced.is_set():
            if self._unwanted.is_set():
                self._enter(Phase.STOPPING)
                query.stop()
                break
            if (failure := query.failure()) is not None:
                self._release(lease)
                self._lease = None
                self._pause(failure, began_s)
                return
            self._fenced.wait(_LOOK_S)
        if self._fenced.is_set():
            query.kill()  # again, where the fence came before the query was known
        else:
            self._release(lease)

    def _await_the_watchdog(self, lease: HeldLease, error: Exception) -> None:
        """Whether the query has stopped is not known: its lease is left to run out, and the watchdog ends the host."""
        logger.error(
            "%s: its query does not stop (%s); the host ends when the lease does", self.spec.name, _line(error)
        )
        self._fenced.set()
        time.sleep(max(0.0, lease.remaining_s) + self._lease_s)

    def _release(self, lease: HeldLease) -> None:
        try:
            lease.release()
        except OSError as error:  # then it runs out by itself
            logger.warning("%s: its lease could not be given back: %s", self.spec.name, error)

    def _fence(self, why: str) -> None:
        """Kill the query from a thread of its own: the application's thread may be in the middle of a slow stop."""
        logger.warning("%s: fenced, its query is stopped: %s", self.spec.name, why)
        self._note = why
        self._fenced.set()
        query = self._query
        if query is not None:
            threading.Thread(target=query.kill, name=f"tidegate-fence-{self.spec.name}", daemon=True).start()

    def _pause(self, why: str, began_s: float) -> None:
        """After a failure: longer after every one, as long as they follow each other quickly."""
        ran_s = time.monotonic() - began_s
        self._failures = 0 if ran_s > 2 * _LONGEST_PAUSE_S else self._failures + 1
        self._enter(Phase.FAILED, why)
        self._lease = None
        logger.warning("%s: %s", self.spec.name, why)
        self._unwanted.wait(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 16)))

    def _enter(self, phase: Phase, note: str = "") -> None:
        self._phase, self._since_s, self._note = phase, time.time(), note


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
