"""Identifies a process beyond its pid: pids are reused, and every machine has the same ones."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from tidegate.domain import InvalidInput

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SAME_BIRTH_S = 0.05


@cache
def this_machine() -> str:
    """This boot of this machine (or container): its name and, on Linux, the boot id."""
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}/{boot}" if boot else socket.gethostname()


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A unique process: its pid, its start time, and its machine.

    >>> ProcessIdentity.parse("12@34.5@host/boot")
    ProcessIdentity(pid=12, born_s=34.5, machine='host/boot')
    """

    pid: int
    born_s: float
    machine: str

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        pid, _, rest = text.strip().partition("@")
        born, _, machine = rest.partition("@")
        try:
            return cls(int(pid), float(born), machine)
        except ValueError:
            raise InvalidInput(f"{text!r} does not identify a process; expected pid@start-time@machine") from None

    def __str__(self) -> str:
        return f"{self.pid}@{self.born_s!r}@{self.machine}"

    @property
    def here(self) -> bool:
        return self.machine == this_machine()

    @property
    def alive(self) -> bool:
        """Is it still the same process? Ask only if it is `here`."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.born_s) < _SAME_BIRTH_S
            return self.here and same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def identify(pid: int) -> ProcessIdentity:
    """A process of this machine. Raises `psutil.NoSuchProcess` if the pid does not exist."""
    return ProcessIdentity(pid, psutil.Process(pid).create_time(), this_machine())
