"""The machine of the driver: processors, memory, pressure, and a probe of its memory bandwidth."""

from __future__ import annotations

import os
import socket
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from tidegate.adapters.host.probes import NoProbe, PressureProbe, Probe, choose_probe
from tidegate.domain import HostSample
from tidegate.domain.capability import Capability
from tidegate.evaluate.saturation import MUCH_INFLATED

_PROBES = {
    "resctrl": "memory bandwidth from resctrl",
    "perf": "memory bandwidth from perf's uncore counters",
    "pressure": "the kernel's pressure stalls",
}
"""What each probe reads, by its name."""


class _Machine(Protocol):
    def memory(self) -> tuple[int, int]:
        """Total bytes, and bytes that are free or can be freed."""

    def busy(self) -> float:
        """The busy share of all processors since the last call; 0 on the first call."""


class _Psutil:
    def __init__(self) -> None:
        self._psutil = import_module("psutil")

    def memory(self) -> tuple[int, int]:
        found = self._psutil.virtual_memory()
        return int(found.total), int(found.available)

    def busy(self) -> float:
        return float(self._psutil.cpu_percent(interval=None)) / 100


class _Proc:
    """Linux without psutil: the same numbers from /proc. On other systems, memory is unknown."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._last: tuple[int, int] | None = None

    def memory(self) -> tuple[int, int]:
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
        except OSError:
            return 0, 0
        bytes_of = {name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return bytes_of.get("MemTotal", 0), bytes_of.get("MemAvailable", 0)

    def busy(self) -> float:
        try:
            ticks = [int(part) for part in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:
            return 0.0
        now = sum(ticks), ticks[3] + ticks[4]  # all ticks, and those idle or waiting for a disk
        before, self._last = self._last or now, now
        passed = now[0] - before[0]
        return min(max(1 - (now[1] - before[1]) / passed, 0.0), 1.0) if passed > 0 else 0.0


def _machine() -> _Machine:
    return _Psutil() if _installed("psutil") else _Proc()


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


class HostWatch:
    """Samples this machine. `works_here`: executors run on it too, so its memory is also theirs."""

    def __init__(self, works_here: bool) -> None:
        self._machine = _machine()
        self._pressure = PressureProbe()
        self._works_here = works_here
        self._probe: Probe = choose_probe() if works_here else NoProbe()

    def sample(self) -> HostSample:
        """One sample; the busy share is since the last one."""
        (memory_bytes, free_bytes), now_s = self._machine.memory(), time.time()
        pressure = self._pressure.read(now_s)
        return HostSample(
            name=socket.gethostname(),
            cpus=os.cpu_count() or 1,
            cpu_busy=self._machine.busy(),
            cpu_pressure=pressure.cpu_pressure if pressure else None,
            memory_bytes=memory_bytes,
            memory_free_bytes=free_bytes,
            signal=self._probe.read(now_s),
        )

    def capability(self) -> Capability:
        """How saturation of the executors' machine is recognised, for service classes."""
        if self._probe.name:
            return Capability(
                "saturation", True, f"by {_PROBES[self._probe.name]}, if rows are slower than learned too"
            )
        why = "this machine shows neither memory bandwidth nor pressure stalls"
        why = why if self._works_here else "executors run on machines that cannot be probed from the driver"
        times = f"only service times count, from {MUCH_INFLATED:g} times the learned cost of a row"
        return Capability("saturation", False, f"{why}; {times}")
