"""The fleet part of the chaos run: two hosts, a centre and one application, which are killed or frozen."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from tidegate.domain import EnvironmentUnfit
from tidegate.fleet.centrelock import centre_pid, signal_centre
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.registry import Registry
from tidegate_lab.experiments.chaos_sink import Sink
from tidegate_lab.experiments.fleet_commands import fleet
from tidegate_lab.experiments.kafka_broker import connector_jars

APPLICATION = "fleet-count"
KINDS = ("agent-killed", "host-killed", "host-frozen", "centre-killed")
_HOSTS = 2
_CENTRE_AWAY_S, _FROZEN_ON_S, _AWAKE_S, _LEASE_WAIT_S = 10.0, 5.0, 3.0, 90.0


class ChaosFleet:
    """A fleet run by the user's commands. It is shut down when the `with` block ends."""

    def __init__(self, folder: Path, address: str, topic: str) -> None:
        self._folder = FleetFolder(folder / "fleet")
        self._address, self._topic = address, topic
        self._file = folder / "fleet.json"
        self._sink_path = folder / f"{APPLICATION}.db"
        self.sink = Sink(self._sink_path)

    def __enter__(self) -> ChaosFleet:
        host = {"memory_mb": 768, "settings": {"spark.jars": ",".join(connector_jars())}}
        regions = {"here": {"min_hosts": _HOSTS, "max_hosts": _HOSTS}}
        self._file.write_text(json.dumps({"regions": regions, "host": host}))
        try:
            self._do("up", str(self._file), "--wait", "240")
            arguments = {"address": self._address, "topic": self._topic, "sink": str(self._sink_path)}
            words = ["--name", APPLICATION, "--region", "here", "--arguments", json.dumps(arguments)]
            self._do("submit", "tidegate_lab.experiments.chaos_jobs:fleet_job", *words)
        except BaseException as error:
            self.__exit__(type(error))
            raise
        self._registry = Registry(self._folder.registry)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._do("down")
        except EnvironmentUnfit:
            if kind is None:  # otherwise the first error is reported
                raise

    def strikes(self) -> Mapping[str, Callable[[], None]]:
        done = (self.kill_agent, self.kill_host, self.freeze_host, self.kill_centre)
        return dict(zip(KINDS, done, strict=True))

    def whole(self) -> bool:
        """Return whether the centre sees all hosts as ready."""
        states = dict(self._registry.fact("view", {}).get("hosts", {})).values()
        return sum(state == "ready" for state in states) >= _HOSTS and self.centre_alive()

    def centre_alive(self) -> bool:
        return centre_pid(self._folder) is not None

    def withdraw(self) -> None:
        self._do("withdraw", APPLICATION)

    def began_s(self) -> dict[int, float]:
        """When the lease of each run was taken."""
        return {record.epoch: record.taken_s for record in self._folder.lease(APPLICATION).history()}

    def kill_agent(self) -> None:
        """Kill the Python process of the application's host. The watchdog has to kill its JVM."""
        self._host()[0].kill()

    def kill_host(self) -> None:
        """Kill all processes of that host at once."""
        for process in self._host():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def freeze_host(self) -> None:
        """Freeze all processes of that host, including its watchdog, until another host has its lease.

        The watchdog wakes up last. The centre cannot kill the host, as if the machine were unreachable, so it wakes up
        and may try to commit.
        """
        processes, epoch = self._host(), max(self.began_s())
        entry = self._registry.hosts()[self._host_name()]
        self._registry.put_host(entry.spec, None)
        dogs = [process for process in processes if _is_watchdog(process)]
        for process in (*dogs, *processes):
            with contextlib.suppress(psutil.Error):  # short-lived workers come and go
                process.suspend()
        while self.sink.locked():  # stopped in the middle of a transaction, which a database server would roll back
            processes[0].resume()
            time.sleep(0.02)
            processes[0].suspend()
        deadline_s = time.monotonic() + _LEASE_WAIT_S
        while max(self.began_s()) == epoch and time.monotonic() < deadline_s:
            time.sleep(0.2)
        time.sleep(_FROZEN_ON_S)
        _resume([process for process in processes if process not in dogs])
        time.sleep(_AWAKE_S)
        _resume(dogs)

    def kill_centre(self) -> None:
        """Kill the centre and run `tidegate fleet up` some time later."""
        signal_centre(self._folder, signal.SIGKILL)
        time.sleep(_CENTRE_AWAY_S)
        self._do("up", "--wait", "60")

    def _host(self) -> list[psutil.Process]:
        """The processes of the application's host, the agent's first."""
        card = self._folder.read_card(self._host_name())
        if card is None:
            raise EnvironmentUnfit(f"chaos: the host of {APPLICATION} has gone")
        agent = psutil.Process(card.pid)
        return [agent, *agent.children(recursive=True)]

    def _host_name(self) -> str:
        name = self._registry.applications()[APPLICATION].host
        if name is None:
            raise EnvironmentUnfit(f"chaos: {APPLICATION} has no host")
        return name

    def _do(self, *words: str) -> None:
        fleet(self._folder.root, *words)


def _is_watchdog(process: psutil.Process) -> bool:
    try:
        return any("watchdog" in word for word in process.cmdline())
    except psutil.Error:  # it has ended in the meantime
        return False


def _resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it may have been killed in the meantime
            process.resume()
