"""The machine that the driver runs on: processors, memory, pressure."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

from tidegate.domain import HostSample

_PRESSURE = Path("/proc/pressure/cpu")


def this_host() -> HostSample:
    """One sample; the busy share is since the last call."""
    memory = psutil.virtual_memory()
    return HostSample(
        name=socket.gethostname(),
        cpus=psutil.cpu_count() or 1,
        cpu_busy=psutil.cpu_percent(interval=None) / 100,
        cpu_pressure=cpu_pressure(),
        memory_bytes=int(memory.total),
        memory_free_bytes=int(memory.available),
    )


def cpu_pressure() -> float | None:
    """Share of the last ten seconds in which some process waited for a CPU; None where the kernel does not say."""
    try:
        line = _PRESSURE.read_text().splitlines()[0]
        return float(line.split("avg10=")[1].split()[0]) / 100
    except (OSError, IndexError, ValueError):
        return None
