"""A host without Spark: a real process with a real agent, whose queries write numbers to a file.

A query goes on where its checkpoint says, appends one number per batch to `rows.log`, then moves the checkpoint on:
two at once would write a number twice or out of order.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tidegate.domain import InvalidInput
from tidegate.domain.objectives import measured_name
from tidegate.fleet.agent import Agent
from tidegate.fleet.config import stored_config
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.protocol import read_token
from tidegate.fleet.state import ApplicationSpec, HostSpec
from tidegate.fleet.tenant import Figures
from tidegate.monitor.measurement import MeasurementPlan

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


class StubRunner:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._plan = MeasurementPlan(1.0, ())

    def start(self, spec: ApplicationSpec, checkpoint: Path, gate: Path, tasks: Mapping[str, int]) -> StubQuery:
        return StubQuery(spec, checkpoint)

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

    def operator(self, application: str, operator: str) -> None:
        return None

    def tasks(self, application: str) -> dict[str, int]:
        return {}

    def bound(self, application: str, rows_per_s: float, batch_s: float) -> None:
        """Its rows come one by one."""

    def rescale(self, application: str, operator: str, tasks: int) -> float:
        raise InvalidInput(f"{application} has no operators here")


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
    agent = Agent(spec, folder, runner, lease_s=given.lease, port=given.port, advertise=address)
    staff = None
    if given.managers:
        from tidegate.fleet.local import HostStaff  # only here: it takes a while to import

        token, config = read_token(folder.token), stored_config(folder)
        staff = HostStaff(agent.card, config, folder, token, runner, lambda: list(agent.status().tenancies))
        agent.managers = staff
        staff.begin()
    signal.signal(signal.SIGTERM, lambda *_: agent.end())
    with contextlib.suppress(KeyboardInterrupt):
        agent.wait()
    if staff is not None:
        staff.end()
    agent.close()


if __name__ == "__main__":
    main()
