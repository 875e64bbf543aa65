"""Machines with clocks of their own, a disk that they share, and wires between them, all of which can fail."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.simfleet.kernel import Kernel, Process
from tidegate.fleet.calls import Unreachable
from tidegate.fleet.ports import Answer
from tidegate.fleet.protocol import Body, ProtocolError
from tidegate.fleet.registry import Registry

A = TypeVar("A")
B = TypeVar("B")

_TORN_WITHIN_S = 2.0


class Clock:
    """Runs a little fast or slow; its wall time is set by others now and then."""

    def __init__(self, kernel: Kernel, drift: float) -> None:
        self._kernel = kernel
        self.rate = 1.0 + kernel.random.uniform(-drift, drift)
        self._base_s = kernel.random.uniform(0.0, 1000.0)
        self.set_by_s = 0.0

    def steady_s(self) -> float:
        return self._base_s + self._kernel.now_s * self.rate

    def wall_s(self) -> float:
        return 1.7e9 + self._kernel.now_s + self.set_by_s

    def forward_s(self) -> float:
        return 1.7e9 + self.steady_s()

    def when_s(self, steady_s: float) -> float:
        """The simulation's time at which this clock shows `steady_s`."""
        return (steady_s - self._base_s) / self.rate


class SharedDisk:
    """What all machines see; `full` makes writing fail for everybody."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[str, bytes | None]] = {}
        """Folder → name → body; None for a folder in it."""
        self.full = False

    def make(self, folder: Path) -> None:
        for path in (*reversed(folder.parents), folder):
            if str(path) not in self.folders:
                self.folders[str(path)] = {}
                if path.parent != path:
                    self.folders[str(path.parent)][path.name] = None

    def within(self, folder: Path) -> dict[str, bytes | None]:
        found = self.folders.get(str(folder))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", str(folder))
        return found

    def drop(self, path: Path) -> None:
        for folder in [each for each in self.folders if each == str(path) or each.startswith(f"{path}/")]:
            del self.folders[folder]
        self.folders.get(str(path.parent), {}).pop(path.name, None)


class Mount:
    """The disk as one machine sees it: slow, cut off, or as it should be."""

    def __init__(self, kernel: Kernel, disk: SharedDisk) -> None:
        self.kernel, self.disk = kernel, disk
        self.cut = False
        self.slow_s = 0.0
        self._unsynced: list[tuple[float, Path]] = []

    def tear(self) -> None:
        """The machine loses power: what it wrote a moment ago may be there in name only."""
        for since_s, path in self._unsynced:
            recent = self.kernel.now_s - since_s < _TORN_WITHIN_S
            if recent and path.name in self.disk.within(path.parent) and self.kernel.random.random() < 0.7:
                self.kernel.say(f"torn: {path}")
                self.disk.within(path.parent)[path.name] = b""
        self._unsynced.clear()

    def wrote(self, path: Path) -> None:
        self._unsynced = [*self._unsynced[-8:], (self.kernel.now_s, path)]


class Files:
    """The `Files` port of one process."""

    def __init__(self, mount: Mount, process: Process) -> None:
        self._mount, self._process = mount, process
        self._disk, self._random = mount.disk, mount.kernel.random

    def names(self, folder: Path) -> list[str]:
        self._wait()
        return sorted(self._disk.within(folder))

    def read(self, path: Path) -> bytes:
        self._wait()
        body = self._disk.within(path.parent).get(path.name)
        if body is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", str(path))
        return body

    def create(self, path: Path, body: bytes) -> bool:
        return self._write(lambda: self._create(path, body))

    def replace(self, path: Path, body: bytes) -> None:
        self._write(lambda: self._replace(path, body))

    def remove(self, path: Path) -> None:
        self._wait()
        self._disk.drop(path)

    def make(self, folder: Path) -> None:
        self._wait()
        self._disk.make(folder)

    def trim(self, path: Path, most_bytes: int) -> None:
        """There are no logs here."""

    def _create(self, path: Path, body: bytes) -> bool:
        folder = self._disk.within(path.parent)
        if path.name in folder:
            return False
        folder[path.name] = body
        return True

    def _replace(self, path: Path, body: bytes) -> None:
        self._disk.within(path.parent)[path.name] = body
        self._mount.wrote(path)

    def _write(self, what: Callable[[], Any]) -> Any:
        """It lands before or after the wait: a caller cannot tell."""
        if self._disk.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._random.random() < 0.5:
            self._wait()
            return what()
        result = what()
        self._wait()
        return result

    def _wait(self) -> None:
        if self._mount.cut:
            raise OSError(errno.EIO, "Input/output error")
        if self._mount.slow_s:
            self._mount.kernel.spend(self._process, self._random.uniform(0.0, self._mount.slow_s))
        elif self._random.random() < 0.05:
            self._mount.kernel.spend(self._process, self._random.uniform(0.0, 0.2))


class Network:
    """Who listens where, and what becomes of messages."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.listeners: dict[tuple[str, int], tuple[Process, Answer]] = {}
        self.cut: set[Process] = set()
        self.trouble = 0.0
        """Share of the messages that are lost, late or repeated."""
        self._port = 1000

    def address(self) -> tuple[str, int]:
        self._port += 1
        return ("sim", self._port)


class Wire:
    """The `Wire` port of one process."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process

    def listen(self, answer: Answer) -> Listener:
        address = self._network.address()
        self._network.listeners[address] = (self._process, answer)
        return Listener(self._network, address)

    def peer(self, address: tuple[str, int]) -> Peer:
        return Peer(self._network, self._process, tuple(address))  # type: ignore[arg-type]

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        return [function(item) for item in items]


class Listener:
    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network, self.address = network, address

    def close(self) -> None:
        self._network.listeners.pop(self.address, None)


class Peer:
    def __init__(self, network: Network, asker: Process, address: tuple[str, int]) -> None:
        self._network, self._asker, self._address = network, asker, address

    def ask(self, kind: str, fields: Body | None = None) -> Body:
        network, kernel = self._network, self._network.kernel
        target, answer = network.listeners.get(self._address, (None, None))
        if target is None or answer is None or not target.runs or target in network.cut:
            kernel.spend(self._asker, 0.2)
            raise Unreachable("no answer")
        fate = kernel.random.random()
        if fate < network.trouble:
            trouble = kernel.random.choice(["lost", "late", "answer-lost", "repeated"])
            if trouble in {"late", "repeated"}:
                delay_s = kernel.random.uniform(0.1, 6.0)
                kernel.after(delay_s, lambda: self._deliver(target, answer, kind, fields or {}), target)
            if trouble == "answer-lost":
                self._deliver(target, answer, kind, fields or {})
            if trouble != "repeated":
                kernel.spend(self._asker, 0.2)
                raise Unreachable(f"no answer: {trouble}")
        if kernel.random.random() < 0.1:
            kernel.spend(self._asker, kernel.random.uniform(0.0, 0.5))
            if not target.alive:
                raise Unreachable("it has gone")
        try:
            return answer(kind, fields or {})
        except Exception as error:
            raise ProtocolError(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        pass

    def _deliver(self, target: Process, answer: Answer, kind: str, fields: Body) -> None:
        if target.runs:
            try:
                answer(kind, fields)
            except Exception as error:
                self._network.kernel.say(f"{target.name} refuses a late {kind}: {error}")


class DurableRegistry(Registry):
    """Outlives the centre; cannot be written while the disk is full."""

    def __init__(self, disk: SharedDisk, clock: Clock) -> None:
        super().__init__(None, clock)
        self._disk = disk

    def _do(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        if self._disk.full:
            raise sqlite3.OperationalError("database or disk is full")
        super()._do(statement, values)
