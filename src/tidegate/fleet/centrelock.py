"""One centre per fleet: a lock that goes with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.domain import InvalidInput
from tidegate.fleet.folder import FleetFolder


@contextmanager
def only_centre(folder: FleetFolder) -> Iterator[None]:
    """One centre per fleet: the lock goes with the process, however it ends."""
    folder.centre_lock.parent.mkdir(parents=True, exist_ok=True)
    with folder.centre_lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidInput(f"a centre serves {folder.root} already") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def centre_pid(folder: FleetFolder) -> int | None:
    """The process of the centre that serves the fleet now; None where none does."""
    try:
        with folder.centre_lock.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return int(file.read().strip() or 0) or None
    except (FileNotFoundError, ValueError):
        return None
    return None
