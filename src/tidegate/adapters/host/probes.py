"""Probes of a host's memory bandwidth and stalls: resctrl, perf's uncore counters, or pressure stall information.

The best available probe is chosen once and reports its name. Probes read files below a root, or call `perf`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

from tidegate.domain import HostSignal

_CACHE_LINE_BYTES = 64
_PERF_SAMPLE_S = 0.05
_AVERAGE = re.compile(r"^some .*?avg10=([\d.]+)", re.MULTILINE)


class Probe(Protocol):
    """Reads one host."""

    @property
    def name(self) -> str:
        """The source of its readings; empty for the probe that reads nothing."""
        ...

    def read(self, now_s: float) -> HostSignal | None:
        """The current value; None if reading failed, or if this is the first of two readings that are needed."""
        ...


class ResctrlProbe:
    """Memory bandwidth monitoring of Intel RDT and AMD QoS: bytes counted by every L3 domain."""

    name = "resctrl"

    def __init__(self, root: Path = Path("/")) -> None:
        self._counters = sorted((root / "sys/fs/resctrl/mon_data").glob("mon_L3_*/mbm_total_bytes"))
        self._last: tuple[float, int] | None = None

    @property
    def available(self) -> bool:
        return self._count() is not None

    def read(self, now_s: float) -> HostSignal | None:
        count, last = self._count(), self._last
        if count is None:
            return None
        self._last = (now_s, count)
        if last is None or now_s <= last[0] or count < last[1]:
            return None
        return HostSignal(self.name, bandwidth_bytes_per_s=(count - last[1]) / (now_s - last[0]))

    def _count(self) -> int | None:
        try:
            # An unreadable domain contains "Unavailable".
            return sum(int(path.read_text()) for path in self._counters) if self._counters else None
        except (OSError, ValueError):
            return None


class PerfProbe:
    """Reads and writes at the memory controllers (uncore IMC), counted with a short `perf stat`."""

    name = "perf"

    def __init__(self, root: Path = Path("/"), perf: str | None = None) -> None:
        devices = sorted((root / "sys/bus/event_source/devices").glob("uncore_imc*"))
        self._perf = perf or shutil.which("perf")
        self._events = [
            f"{device.name}/{event}/"
            for device in devices
            for event in ("cas_count_read", "cas_count_write")
            if (device / "events" / event).exists()
        ]

    @property
    def available(self) -> bool:
        return bool(self._perf and self._events) and self.read(0.0) is not None

    def read(self, now_s: float) -> HostSignal | None:
        if not self._perf or not self._events:
            return None
        sample = ["--", "sleep", str(_PERF_SAMPLE_S)]
        command = [self._perf, "stat", "-a", "-x", ",", "-e", ",".join(self._events), *sample]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=5, check=True, env={**os.environ, "LC_ALL": "C"}
            )
            counted = [_bytes(line) for line in ran.stderr.splitlines() if "cas_count" in line]
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return HostSignal(self.name, bandwidth_bytes_per_s=sum(counted) / _PERF_SAMPLE_S) if counted else None


def _bytes(line: str) -> float:
    """One line of `perf stat -x ,`: value, unit, event, …; the kernel scales to MiB if it can.

    >>> _bytes("12.5,MiB,uncore_imc_0/cas_count_read/,50000000,100.00,,")
    13107200.0
    >>> _bytes("1000,,uncore_imc_0/cas_count_write/,50000000,100.00,,")
    64000.0
    """
    value, unit = line.split(",")[:2]
    return float(value) * (2**20 if unit == "MiB" else _CACHE_LINE_BYTES)


class PressureProbe:
    """Pressure stall information: the share of the last ten seconds in which some process waited."""

    name = "pressure"

    def __init__(self, root: Path = Path("/")) -> None:
        self._folder = root / "proc/pressure"

    @property
    def available(self) -> bool:
        return self.read(0.0) is not None

    def read(self, now_s: float) -> HostSignal | None:
        cpu, memory = self._share("cpu"), self._share("memory")
        if cpu is None and memory is None:
            return None
        return HostSignal(self.name, cpu_pressure=cpu, memory_pressure=memory)

    def _share(self, resource: str) -> float | None:
        try:
            found = _AVERAGE.search((self._folder / resource).read_text())
        except OSError:
            return None
        return float(found.group(1)) / 100 if found else None


class NoProbe:
    """No probe is available: saturation is judged by service times alone."""

    name = ""

    def read(self, now_s: float) -> HostSignal | None:
        return None


def choose_probe(root: Path = Path("/")) -> Probe:
    """The best probe that is available here."""
    for probe in (ResctrlProbe(root), PerfProbe(root), PressureProbe(root)):
        if probe.available:
            return probe
    return NoProbe()
