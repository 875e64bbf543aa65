"""Leases with fencing: they decide who may run an application. They are kept beside its checkpoint.

A lease has one small file per epoch. An epoch is taken by creating its file atomically with `link`, which fails if the
file exists, so only one of two takers wins. The holder renews by replacing its own file with a higher counter. Its time
counts from before the write. A taker waits until, on its own clock, the counter has not changed for longer than the
lease lasts. Clocks of different machines are never compared, so they need not agree (Gray and Cheriton 1989; waiting by
watching the counter is the method of Amazon's DynamoDB lock client).

The folder needs the atomic `link` and `rename` of a POSIX file system. Object stores do not have them.
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
"""A taker waits this share of the lease longer, because clocks drift and stopping takes a moment."""
KEEP_EPOCHS = 200
"""Older epochs are deleted, together with the files of their runs."""


class Fenced(TidegateError):
    """The lease was lost to another owner or has expired. Whatever ran under it must stop."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Who takes leases, and for how long each of them lasts without a renewal."""

    owner: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the newest file of a lease."""

    epoch: int
    owner: str
    counter: int
    duration_s: float
    taken_s: float
    """Wall-clock time, for display and later checks. No rule depends on it."""
    released: bool = False
    """Released by its holder: it can be taken at once."""

    @property
    def damaged(self) -> bool:
        """The file cannot be read, for example after a crash of the writing machine. Its owner is unknown."""
        return not self.owner


@lru_cache(maxsize=256)
def _parsed(body: bytes) -> LeaseRecord:
    """Cached, because a waiting taker reads the same content repeatedly."""
    return from_json(LeaseRecord, body)


class LeaseFolder:
    """The files of one lease."""

    def __init__(self, folder: Path, files: Files = DISK, clock: Clock = REAL_CLOCK) -> None:
        self.folder = folder
        self._files = files
        self.clock = clock

    def create(self) -> None:
        """Create the folder. Done once.

        Takers never create it. If it is missing, they do not see what the other hosts see (the file system may not be
        mounted, for example), and a lease taken there would exclude nobody.
        """
        self._files.make(self.folder)

    def read(self) -> LeaseRecord | None:
        """The newest epoch, or None if the lease was never taken. Raises `OSError` if it cannot be read."""
        records = self.history(newest=1)
        return records[-1] if records else None

    def history(self, newest: int = KEEP_EPOCHS) -> list[LeaseRecord]:
        """The newest epochs, oldest first: all recent holders."""
        return [self._record(epoch) for epoch in epochs_of(self._files.names(self.folder))[-newest:]]

    def take(self, terms: LeaseTerms, seen: LeaseRecord | None) -> HeldLease | None:
        """Take the epoch after `seen`, which the caller knows to be free. None if another taker was faster.

        Also None if `seen` has been renewed in the meantime: its holder is still alive.
        """
        began_s = self.clock.steady_s()
        if self.read() != seen:
            return None
        epoch = 1 if seen is None else seen.epoch + 1
        record = LeaseRecord(epoch, terms.owner, 0, terms.duration_s, self.clock.wall_s())
        if not self._files.create(self._path(record.epoch), to_json(record).encode()):
            return None
        self._forget_old(record.epoch)
        return HeldLease(self, record, began_s)

    def write(self, record: LeaseRecord) -> None:
        """Replace the holder's own file. Files of other epochs are never touched."""
        self._files.replace(self._path(record.epoch), to_json(record).encode())

    def _record(self, epoch: int) -> LeaseRecord:
        try:
            return _parsed(self._files.read(self._path(epoch)))
        except ValueError:
            return LeaseRecord(epoch, "", -1, 0.0, 0.0)

    def _path(self, epoch: int) -> Path:
        return self.folder / lease_name(epoch)

    def _forget_old(self, newest: int) -> None:
        """Delete old epochs, and drafts of takers that died while writing."""
        with contextlib.suppress(OSError):
            for name in self._files.names(self.folder):
                epoch = name.partition(".")[0]
                keep = KEEP_EPOCHS if name == f"{epoch}.lease" else 1
                if epoch.isdecimal() and int(epoch) <= newest - keep:
                    self._files.remove(self.folder / name)


class HeldLease:
    """A lease, as its holder sees it."""

    def __init__(self, folder: LeaseFolder, record: LeaseRecord, began_s: float) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # the keeper renews it while the application's own thread may release it
        self.record = record
        self.expires_s = began_s + record.duration_s
        """On the steady clock. After that, nothing may run under this lease."""

    @property
    def remaining_s(self) -> float:
        return self.expires_s - self._folder.clock.steady_s()

    def renew(self) -> None:
        """Extend it by another full duration. Raises `Fenced` if it is too late, `OSError` if the state is unknown.

        After an `OSError` the lease is unchanged: it is valid until its expiry, and the renewal may be repeated.
        """
        with self._lock:
            began_s = self._folder.clock.steady_s()
            if self.record.released or began_s >= self.expires_s:
                raise Fenced("the lease has expired")  # it may have another owner by now, so it must be taken again
            self._check_ours()  # a renewal must not overwrite another owner's file
            renewed = replace(self.record, counter=self.record.counter + 1)
            self._folder.write(renewed)
            self.record = renewed
            self._check_ours()
            if self.remaining_s <= 0:
                # The write took so long that another host may have taken the lease before it completed.
                raise Fenced("the lease expired while it was being renewed")
            self.expires_s = began_s + renewed.duration_s

    def check(self) -> None:
        """Raises `Fenced` if the lease is no longer ours. Called right before a query is started."""
        self._check_ours()
        if self.remaining_s <= 0:
            raise Fenced("the lease has expired")

    def release(self) -> None:
        """Release the lease after its query has ended. Raises `Fenced` if it has another owner by now."""
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
            raise Fenced(f"the lease went to {newest.owner or 'an unknown owner'} in epoch {newest.epoch}")


class LeaseWatch:
    """Tells when a lease of another owner is free: released, or unchanged for longer than it lasts."""

    def __init__(self, clock: Clock, lease_s: float) -> None:
        """`lease_s`: the usual duration of leases here, assumed for a damaged one."""
        self._clock = clock
        self._lease_s = lease_s
        self._seen: LeaseRecord | None = None
        self._since_s = clock.steady_s()

    def look(self, record: LeaseRecord | None, unchanged_s: float = 0.0) -> None:
        """Record the current content. `unchanged_s`: how long another observer has seen it unchanged."""
        now_s = self._clock.steady_s()
        if record != self._seen:
            self._seen, self._since_s = record, now_s
        self._since_s = min(self._since_s, now_s - unchanged_s)

    @property
    def unchanged_s(self) -> float:
        return self._clock.steady_s() - self._since_s

    @property
    def expired(self) -> bool:
        """Has its holder certainly stopped?"""
        if self._seen is None:
            return False
        lasts_s = max(self._seen.duration_s, self._lease_s) if self._seen.damaged else self._seen.duration_s
        return self.unchanged_s > lasts_s * (1 + MARGIN)

    @property
    def free(self) -> bool:
        return self._seen is None or self._seen.released or self.expired
