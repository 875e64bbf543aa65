"""Leases with fencing: who may run an application, kept beside its checkpoint in the folder that all hosts share.

One small file per epoch. An epoch is taken by creating its file as a whole (`link`, which fails where the file is
there already), so of two takers one wins. The holder renews by replacing its own file with a higher counter and
counts its time from before the write; a taker waits until it has seen the counter stand still for longer than the
lease lasts, on its own clock. No two clocks are compared, so none have to agree (Gray and Cheriton 1989; the wait by
watching is that of Amazon's DynamoDB lock client).

The folder needs the atomic `link` and `rename` of a POSIX file system; object stores do not have them.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tidegate.domain import TidegateError
from tidegate.domain.codec import from_json, to_json
from tidegate.domain.epochs import epochs_of, lease_name
from tidegate.fleet.files import DISK, Files
from tidegate.fleet.ports import REAL_CLOCK, Clock

MARGIN = 0.25
"""A taker waits this share of the lease longer than it lasts: clocks may drift, and a stop takes a moment."""
KEEP_EPOCHS = 200
"""Older ones are forgotten, and so is what they left behind."""


class Fenced(TidegateError):
    """The lease has gone to somebody else, or has run out: what it allowed must not go on."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the newest file of a lease says."""

    epoch: int
    owner: str
    counter: int
    duration_s: float
    taken_s: float
    """Wall clock, for people and for checks afterwards; no rule depends on it."""
    released: bool = False
    """Given back by its holder: it can be taken at once."""

    @property
    def damaged(self) -> bool:
        """The file cannot be read, as after a crash of the machine that wrote it: nobody knows whose it is."""
        return not self.owner


@lru_cache(maxsize=256)
def _parsed(body: bytes) -> LeaseRecord:
    """Whoever waits for a lease reads the same words over and over."""
    return from_json(LeaseRecord, body)


class LeaseFolder:
    """The files of one lease."""

    def __init__(self, folder: Path, files: Files = DISK, clock: Clock = REAL_CLOCK) -> None:
        self.folder = folder
        self._files = files
        self.clock = clock

    def create(self) -> None:
        """Make the folder, once and for all.

        Takers never do: where it is missing for them, what they see is not what the others see (a file system that
        is not mounted, say), and a lease taken there would hold nobody back.
        """
        self._files.make(self.folder)

    def read(self) -> LeaseRecord | None:
        """The newest epoch, or None where the lease was never taken. Raises `OSError` where nothing can be seen."""
        records = self.history(newest=1)
        return records[-1] if records else None

    def history(self, newest: int = KEEP_EPOCHS) -> list[LeaseRecord]:
        """The newest epochs, oldest first: who ever held the lease."""
        return [self._record(epoch) for epoch in epochs_of(self._files.names(self.folder))[-newest:]]

    def take(self, owner: str, duration_s: float, seen: LeaseRecord | None) -> HeldLease | None:
        """Take the epoch after `seen`, which the caller knows to be free; None where another was quicker.

        It is refused as well where `seen` has been renewed in the meantime: its holder lives after all.
        """
        began_s = self.clock.steady_s()
        if self.read() != seen:
            return None
        record = LeaseRecord(1 if seen is None else seen.epoch + 1, owner, 0, duration_s, self.clock.wall_s())
        if not self._files.create(self._path(record.epoch), to_json(record).encode()):
            return None
        self._forget_old(record.epoch)
        return HeldLease(self, record, began_s)

    def write(self, record: LeaseRecord) -> None:
        """Replace the holder's own file. It never touches the file of another epoch."""
        self._files.replace(self._path(record.epoch), to_json(record).encode())

    def _record(self, epoch: int) -> LeaseRecord:
        try:
            return _parsed(self._files.read(self._path(epoch)))
        except ValueError:
            return LeaseRecord(epoch, "", -1, 0.0, 0.0)

    def _path(self, epoch: int) -> Path:
        return self.folder / lease_name(epoch)

    def _forget_old(self, newest: int) -> None:
        """Epochs from long ago, and drafts of those who died in the middle of writing one."""
        with contextlib.suppress(OSError):
            for name in self._files.names(self.folder):
                epoch = name.partition(".")[0]
                keep = KEEP_EPOCHS if name == f"{epoch}.lease" else 1
                if epoch.isdecimal() and int(epoch) <= newest - keep:
                    self._files.remove(self.folder / name)


class HeldLease:
    """A lease in the hands of its holder."""

    def __init__(self, folder: LeaseFolder, record: LeaseRecord, began_s: float) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # the keeper renews while the application's own thread may release
        self.record = record
        self.expires_s = began_s + record.duration_s
        """On the steady clock: from then on nothing may run under this lease."""

    @property
    def remaining_s(self) -> float:
        return self.expires_s - self._folder.clock.steady_s()

    def renew(self) -> None:
        """Hold it for another whole duration. Raises `Fenced` where it is too late, `OSError` where nothing is known.

        After an `OSError` the lease is what it was: it runs until its expiry, and may be tried again.
        """
        with self._lock:
            began_s = self._folder.clock.steady_s()
            if self.record.released or began_s >= self.expires_s:
                raise Fenced("the lease has run out")  # it may be another's by now: never renewed, only taken anew
            self._check_ours()  # a renewal must not overwrite somebody else's file
            renewed = replace(self.record, counter=self.record.counter + 1)
            self._folder.write(renewed)
            self.record = renewed
            self._check_ours()
            if self.remaining_s <= 0:
                # The write took so long that somebody may have found the lease free before it landed.
                raise Fenced("the lease has run out while it was renewed")
            self.expires_s = began_s + renewed.duration_s

    def check(self) -> None:
        """Raises `Fenced` where the lease is not ours any more; asked right before a query is started."""
        self._check_ours()
        if self.remaining_s <= 0:
            raise Fenced("the lease has run out")

    def release(self) -> None:
        """Give it back: what it allowed has ended. Where it is another's by now, nothing is touched."""
        with self._lock:
            self._check_ours()
            self.record = replace(self.record, counter=self.record.counter + 1, released=True)
            self._folder.write(self.record)

    def _check_ours(self) -> None:
        newest = self._folder.read()
        if newest is None:
            raise Fenced("the lease is gone")
        ours = newest.epoch == self.record.epoch and (newest.damaged or newest.owner == self.record.owner)
        if not ours:
            raise Fenced(f"the lease went to {newest.owner or 'somebody'} in epoch {newest.epoch}")


class LeaseWatch:
    """Tells when another's lease is free: released, or unchanged for longer than it lasts."""

    def __init__(self, clock: Clock, lease_s: float) -> None:
        """`lease_s`: how long leases last here; a damaged one is given as much."""
        self._clock = clock
        self._lease_s = lease_s
        self._seen: LeaseRecord | None = None
        self._since_s = clock.steady_s()

    def look(self, record: LeaseRecord | None, unchanged_s: float = 0.0) -> None:
        """Take in what the lease says now. `unchanged_s`: somebody else has seen it stand still for so long already."""
        now_s = self._clock.steady_s()
        if record != self._seen:
            self._seen, self._since_s = record, now_s
        self._since_s = min(self._since_s, now_s - unchanged_s)

    @property
    def unchanged_s(self) -> float:
        return self._clock.steady_s() - self._since_s

    @property
    def expired(self) -> bool:
        """Has its holder stopped for certain, whoever that is?"""
        if self._seen is None:
            return False
        lasts_s = max(self._seen.duration_s, self._lease_s) if self._seen.damaged else self._seen.duration_s
        return self.unchanged_s > lasts_s * (1 + MARGIN)

    @property
    def free(self) -> bool:
        return self._seen is None or self._seen.released or self.expired
