"""The faults, one function each. A function returns when the fault has been injected or undone."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil

from tidegate_lab.experiments.chaos_disk import SmallDisk
from tidegate_lab.experiments.chaos_network import Network
from tidegate_lab.experiments.chaos_processes import DriverProcess
from tidegate_lab.experiments.kafka_broker import Broker

_FROZEN_S, _FULL_S, _LOCKED_S, _CUT_S, _AWAY_S = 12.0, 15.0, 12.0, 10.0, 3.0


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a fault can hit."""

    driver: DriverProcess
    broker: Broker
    journal: Path
    disk: SmallDisk | None
    network: Network | None
    chance: random.Random


Strike = Callable[[Scene], None]


def kill_executor(scene: Scene) -> None:
    scene.chance.choice(scene.driver.executors()).kill()


def freeze_executor(scene: Scene) -> None:
    _freeze(scene.chance.choice(scene.driver.executors()))


def kill_python_worker(scene: Scene) -> None:
    scene.chance.choice(scene.driver.python_workers()).kill()


def fail_control(scene: Scene) -> None:
    """Two control steps fail with an error."""
    scene.driver.tell("fail-observing")


def kill_control(scene: Scene) -> None:
    """The control thread dies; the script attaches again."""
    scene.driver.tell("end-control")


def lock_journal(scene: Scene) -> None:
    """Another process locks the journal's database."""
    with closing(sqlite3.connect(scene.journal, timeout=30.0, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        time.sleep(_LOCKED_S)
        database.execute("ROLLBACK")


def fill_disk(scene: Scene) -> None:
    """The journal's disk is full."""
    assert scene.disk is not None
    scene.disk.fill()
    time.sleep(_FULL_S)
    scene.disk.clear()


def kill_driver(scene: Scene) -> None:
    """Kill the Python process of the driver. Its JVM and executors then exit. Another driver starts immediately."""
    scene.driver.python().kill()
    scene.driver.wait_killed()
    scene.driver.start()


def freeze_driver(scene: Scene) -> None:
    _freeze(scene.driver.python(), scene.driver.jvm())


def kill_jvm(scene: Scene) -> None:
    """Kill the driver's JVM. The Python process has to notice, and the supervisor starts another driver."""
    scene.driver.jvm().kill()


def restart_broker(scene: Scene) -> None:
    """Kill the broker and restart it shortly afterwards with its data on disk."""
    scene.broker.kill()
    time.sleep(_AWAY_S)
    scene.broker.start()


def cut_network(scene: Scene) -> None:
    """Cut the network between the broker and all clients. Packets are dropped silently."""
    assert scene.network is not None
    scene.network.cut()
    time.sleep(_CUT_S)
    scene.network.mend()


FAULTS: Mapping[str, Strike] = {
    "executor-killed": kill_executor,
    "executor-frozen": freeze_executor,
    "python-worker-killed": kill_python_worker,
    "control-fails": fail_control,
    "control-killed": kill_control,
    "journal-locked": lock_journal,
    "journal-disk-full": fill_disk,
    "driver-killed": kill_driver,
    "driver-frozen": freeze_driver,
    "driver-jvm-killed": kill_jvm,
    "broker-restarted": restart_broker,
    "network-cut": cut_network,
}


def _freeze(*processes: psutil.Process) -> None:
    for process in processes:
        process.suspend()
    time.sleep(_FROZEN_S)
    for process in processes:
        process.resume()
