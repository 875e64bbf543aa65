"""One centre per fleet: a lock that is released with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidegate.domain import EnvironmentUnfit, InvalidInput
from tidegate.fleet.folder import FleetFolder
from tidegate.fleet.identity import ProcessIdentity, identify


@contextmanager
def only_centre(folder: FleetFolder) -> Iterator[None]:
    """Hold the lock of the fleet's only centre. It is released with the process, however it ends."""
    folder.centre_lock.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(folder.centre_lock, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidInput(f"another centre already serves {folder.root}") from None
        file.truncate(0)
        file.write(str(identify(os.getpid())))
        file.flush()
        yield


def centre_process(folder: FleetFolder) -> ProcessIdentity | None:
    """The process of the centre that serves the fleet now, or None."""
    try:
        with folder.centre_lock.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return ProcessIdentity.parse(file.read())
    except (FileNotFoundError, InvalidInput):
        return None
    return None


def centre_pid(folder: FleetFolder) -> int | None:
    """Its process id, for display."""
    found = centre_process(folder)
    return None if found is None else found.pid


def signal_centre(folder: FleetFolder, number: signal.Signals) -> None:
    """Send a signal to the fleet's centre, but never to another process with the same id."""
    centre = centre_process(folder)
    if centre is None:
        return
    if not centre.here:
        machine = centre.machine.partition("/")[0]
        raise EnvironmentUnfit(f"the centre of {folder.root} runs on {machine} as process {centre.pid}; stop it there")
    if centre.alive:
        with suppress(ProcessLookupError):
            os.kill(centre.pid, number)
