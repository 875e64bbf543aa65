"""The machine that the driver runs on: processors, memory, pressure, and what a probe says of its memory."""

from __future__ import annotations

import socket
import time

import psutil

from tidegate.control.probes import PressureProbe, Probe, choose_probe
from tidegate.domain import HostSample


class HostWatch:
    """Looks at this machine. `works_here` says whether executors run on it too: only then its memory tells of them."""

    def __init__(self, works_here: bool) -> None:
        self._pressure = PressureProbe()
        self._probe: Probe | None = choose_probe() if works_here else None

    def sample(self) -> HostSample:
        """One sample; the busy share is since the last one."""
        memory, now_s = psutil.virtual_memory(), time.time()
        pressure = self._pressure.read(now_s)
        return HostSample(
            name=socket.gethostname(),
            cpus=psutil.cpu_count() or 1,
            cpu_busy=psutil.cpu_percent(interval=None) / 100,
            cpu_pressure=pressure.cpu_pressure if pressure else None,
            memory_bytes=int(memory.total),
            memory_free_bytes=int(memory.available),
            signal=self._probe.read(now_s) if self._probe else None,
        )
