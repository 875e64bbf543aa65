"""A host without Spark: a real process with a real agent, whose queries write numbers to a file.

A query goes on where its checkpoint says, appends one number per batch to `rows.log`, then moves the checkpoint on:
two at once would write a number twice or out of order.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

from tidegate.domain import ExecutorPool, Observation, Receipt, Targets
from tidegate.domain.qostables import measured_name
from tidegate.evaluate.measurement import MeasurementPlan
from tidegate.fleet.agent import Agent
from tidegate.fleet.calls import Endpoint, fleet_wire
from tidegate.fleet.config import stored_config
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.ports import Ports
from tidegate.fleet.tenant import Figures, RunOrder
from tidegate.fleet.vocabulary import ApplicationSpec, HostSpec
from tidegate.fleet.watchdog import Handle

BATCH_S = 0.05


class StubQuery:
    def __init__(self, spec: ApplicationSpec, checkpoint: Path) -> None:
        if spec.arguments.get("broken"):
            raise ValueError("the recipe is broken")
        checkpoint.mkdir(parents=True, exist_ok=True)
        self._offset = checkpoint / "offset"
        self._rows = checkpoint / "rows.log"
        self._end = threading.Event()
        self._lasts = float(spec.arguments.get("lasts_s", 1e9))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def failure(self) -> str | None:
        return None if self._thread.is_alive() or self._end.is_set() else "the query has ended"

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    kill = stop

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._end.wait(BATCH_S) and time.monotonic() - began_s < self._lasts:
            row = int(self._offset.read_text()) if self._offset.exists() else 0
            with self._rows.open("a") as log:
                log.write(f"{row} {os.getpid()}\n")
            draft = self._offset.with_name(f"offset.{os.getpid()}")
            draft.write_text(str(row + 1))
            draft.replace(self._offset)


class SinkQuery(StubQuery):
    """Writes to a transactional sink instead, which remembers the newest epoch and refuses older ones.

    It does not look at its lease: what it proves is that the sink alone is enough.
    """

    def __init__(self, spec: ApplicationSpec, order: RunOrder, root: Path) -> None:
        self._root, self._epoch = root, order.epoch
        with sqlite3.connect(root / "sink.db") as sink:
            sink.execute("CREATE TABLE IF NOT EXISTS rows (row INTEGER, epoch INTEGER)")
            sink.execute("CREATE TABLE IF NOT EXISTS newest (one INTEGER PRIMARY KEY, epoch INTEGER)")
            sink.execute("INSERT OR IGNORE INTO newest VALUES (1, 0)")
            # Before it reads where to go on: from here on earlier runs are refused.
            sink.execute("UPDATE newest SET epoch = max(epoch, ?)", (self._epoch,))
        super().__init__(spec, order.checkpoint)

    def _run(self) -> None:
        sink = sqlite3.connect(self._root / "sink.db", isolation_level=None, timeout=30)
        ended = False
        while not ended:
            ended = self._end.wait(BATCH_S)  # the batch that is under way is finished, also where it is to stop
            sink.execute("BEGIN IMMEDIATE")
            if sink.execute("SELECT epoch FROM newest").fetchone()[0] > self._epoch:
                sink.execute("ROLLBACK")
                (self._root / "refused").write_text(f"epoch {self._epoch}")
                return
            sink.execute("INSERT INTO rows SELECT count(*), ? FROM rows", (self._epoch,))
            sink.execute("COMMIT")


class StubRunner:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._plan = MeasurementPlan(1.0, ())

    def start(self, spec: ApplicationSpec, order: RunOrder) -> StubQuery:
        if spec.arguments.get("sink"):
            return SinkQuery(spec, order, self._root)
        return StubQuery(spec, order.checkpoint)

    def clear(self, application: str) -> None:
        """A query that does not start leaves nothing behind."""

    def figures(self, application: str) -> Figures:
        """Its load is what the test has written down, and all that is asked for measures one."""
        measured = {measured_name(operator, metric): 1.0 for operator, metric in self._plan.asked_of(application)}
        try:
            load_slots = float((self._root / f"{application}.load").read_text())
        except (OSError, ValueError):
            load_slots = None
        return Figures(load_slots=load_slots, measured=measured)

    def measure(self, plan: MeasurementPlan) -> None:
        self._plan = plan


class StubWorld:
    """Nothing to see and nothing to steer: what works here is the region's manager."""

    def observe(self) -> Observation:
        return Observation(time.time(), (), ExecutorPool((), 0, 1))

    def converge(self, targets: Targets) -> Receipt:
        return Receipt()

    def release(self) -> None:
        pass

    def seen(self, observation: Observation) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleet", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--region", default="local")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--advertise", default="")
    parser.add_argument("--managers", action="store_true")
    given = parser.parse_args()
    address = None
    if given.advertise:
        host, _, port = given.advertise.rpartition(":")
        address = (host, int(port))
    spec = HostSpec(given.name, given.region, 2)
    runner, folder = StubRunner(given.fleet), FleetFolder(given.fleet)
    wire = fleet_wire(folder, stored_config(folder), Endpoint(port=given.port))
    agent = Agent(spec, folder, runner, Ports(wire, Handle(os.getpgrp())), lease_s=given.lease, advertise=address)
    control = None
    if given.managers:
        from tidegate.control.journal import SqliteJournal
        from tidegate.fleet.hostcontrol import HostControl  # only here: it takes a while to import

        journal = SqliteJournal(folder.host_journal(given.name))
        control = HostControl(agent.card, stored_config(folder), folder, wire, StubWorld(), journal)
        agent.control = control
        control.begin()
    signal.signal(signal.SIGTERM, lambda *_: agent.end())
    with contextlib.suppress(KeyboardInterrupt):
        agent.wait()
    if control is not None:
        control.end()
    agent.close()


if __name__ == "__main__":
    main()
