"""The machine of the driver: processors, memory, pressure, and a probe of its memory bandwidth."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Time that all processors have spent, in any unit: outside the kernel, inside it, idle, and altogether."""

    user: float
    system: float
    idle: float
    """Including waiting for a disk."""
    total: float


class _Machine(Protocol):
    def memory(self) -> tuple[int, int]:
        """Total bytes, and bytes that are free or can be freed."""

    def times(self) -> CpuTimes | None:
        """None if unknown."""


class _Psutil:
    def __init__(self) -> None:
        self._psutil = import_module("psutil")

    def memory(self) -> tuple[int, int]:
        found = self._psutil.virtual_memory()
        return int(found.total), int(found.available)

    def times(self) -> CpuTimes | None:
        found = self._psutil.cpu_times()
        parts = {name: float(getattr(found, name, 0.0)) for name in _STATES}
        return _times(*parts.values())


class _Proc:
    """Linux without psutil: the same numbers from /proc. On other systems, memory is unknown."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def memory(self) -> tuple[int, int]:
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
        except OSError:
            return 0, 0
        bytes_of = {name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return bytes_of.get("MemTotal", 0), bytes_of.get("MemAvailable", 0)

    def times(self) -> CpuTimes | None:
        try:
            return _times(*map(float, (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]))
        except OSError:
            return None


_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The first columns of /proc/stat, in order. The others are parts of these."""


def _times(*states: float) -> CpuTimes:
    user, nice, system, idle, waiting, irq, softirq = states[:7]
    return CpuTimes(user + nice, system + irq + softirq, idle + waiting, sum(states))


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
        self._works_here = works_here
        self._times: CpuTimes | None = None
        self._pressure = PressureProbe()
        self._probe: Probe = choose_probe() if works_here else NoProbe()

    def sample(self) -> HostSample:
        """One sample; shares of the processors are since the last one."""
        (memory_bytes, free_bytes), now_s = self._machine.memory(), time.time()
        pressure = self._pressure.read(now_s)
        busy, user, system = self._shares()
        return HostSample(
            name=socket.gethostname(),
            cpus=os.cpu_count() or 1,
            cpu_busy=busy,
            cpu_user=user if self._works_here else None,
            cpu_system=system if self._works_here else None,
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

    def _shares(self) -> tuple[float, float | None, float | None]:
        """The shares of all processors that were busy, outside the kernel and inside it; unknown on the first call."""
        now, before = self._machine.times(), self._times
        self._times = now
        passed = 0.0 if now is None or before is None else now.total - before.total
        if now is None or before is None or passed <= 0:
            return 0.0, None, None
        busy, user, system = (
            min(max(spent / passed, 0.0), 1.0)
            for spent in (passed - (now.idle - before.idle), now.user - before.user, now.system - before.system)
        )
        return busy, user, system
