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
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.domain import TidegateError
from tidegate.domain.codec import from_json, to_json
from tidegate.fleet.steady import steady_s

MARGIN = 0.25
"""A taker waits this share of the lease longer than it lasts: clocks may drift, and a stop takes a moment."""
_KEEP_EPOCHS = 200
_SUFFIX = ".lease"


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


class LeaseFolder:
    """The files of one lease."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        """Make the folder, once and for all.

        Takers never do: where it is missing for them, what they see is not what the others see (a file system that
        is not mounted, say), and a lease taken there would hold nobody back.
        """
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> LeaseRecord | None:
        """The newest epoch, or None where the lease was never taken. Raises `OSError` where nothing can be seen."""
        records = self.history(newest=1)
        return records[-1] if records else None

    def history(self, newest: int = _KEEP_EPOCHS) -> list[LeaseRecord]:
        """The newest epochs, oldest first: who ever held the lease."""
        return [from_json(LeaseRecord, path.read_bytes()) for path in self._files()[-newest:]]

    def take(
        self, owner: str, duration_s: float, seen: LeaseRecord | None, clock: Callable[[], float] = steady_s
    ) -> HeldLease | None:
        """Take the epoch after `seen`, which the caller knows to be free; None where another was quicker.

        It is refused as well where `seen` has been renewed in the meantime: its holder lives after all.
        """
        began_s = clock()
        if self.read() != seen:
            return None
        record = LeaseRecord(1 if seen is None else seen.epoch + 1, owner, 0, duration_s, time.time())
        draft = self._draft(record)
        try:
            os.link(draft, self._path(record.epoch))
        except FileExistsError:
            return None
        finally:
            draft.unlink()
        self._forget_old()
        return HeldLease(self, record, began_s, clock)

    def write(self, record: LeaseRecord) -> None:
        """Replace the holder's own file. It never touches the file of another epoch."""
        self._draft(record).replace(self._path(record.epoch))

    def _draft(self, record: LeaseRecord) -> Path:
        draft = self.folder / f"{record.epoch}.{uuid.uuid4().hex}.draft"
        draft.write_text(to_json(record))
        return draft

    def _path(self, epoch: int) -> Path:
        return self.folder / f"{epoch:010d}{_SUFFIX}"

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name.endswith(_SUFFIX))

    def _forget_old(self) -> None:
        for path in self._files()[:-_KEEP_EPOCHS]:
            with contextlib.suppress(OSError):
                path.unlink()


class HeldLease:
    """A lease in the hands of its holder."""

    def __init__(self, folder: LeaseFolder, record: LeaseRecord, began_s: float, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()  # the keeper renews while the application's own thread may release
        self.record = record
        self.expires_s = began_s + record.duration_s
        """On the steady clock: from then on nothing may run under this lease."""

    @property
    def remaining_s(self) -> float:
        return self.expires_s - self._clock()

    def renew(self) -> None:
        """Hold it for another whole duration. Raises `Fenced` where it is too late, `OSError` where nothing is known.

        After an `OSError` the lease is what it was: it runs until its expiry, and may be tried again.
        """
        with self._lock:
            began_s = self._clock()
            if self.record.released or began_s >= self.expires_s:
                raise Fenced("the lease has run out")  # it may be another's by now: never renewed, only taken anew
            renewed = replace(self.record, counter=self.record.counter + 1)
            self._folder.write(renewed)
            self.record = renewed
            self._check_newest()
            self.expires_s = began_s + renewed.duration_s

    def check(self) -> None:
        """Raises `Fenced` where the lease is not ours any more; asked right before a query is started."""
        if self.remaining_s <= 0:
            raise Fenced("the lease has run out")
        self._check_newest()

    def release(self) -> None:
        """Give it back: what it allowed has ended."""
        with self._lock:
            self.record = replace(self.record, counter=self.record.counter + 1, released=True)
            self._folder.write(self.record)

    def _check_newest(self) -> None:
        newest = self._folder.read()
        if newest is None or newest.epoch != self.record.epoch:
            raise Fenced(f"the lease went to {newest.owner} in epoch {newest.epoch}" if newest else "the lease is gone")


class LeaseWatch:
    """Tells when another's lease is free: released, or unchanged for longer than it lasts."""

    def __init__(self, clock: Callable[[], float] = steady_s) -> None:
        self._clock = clock
        self._seen: LeaseRecord | None = None
        self._since_s = clock()

    def look(self, record: LeaseRecord | None, unchanged_s: float = 0.0) -> None:
        """Take in what the lease says now. `unchanged_s`: somebody else has seen it stand still for so long already."""
        now_s = self._clock()
        if record != self._seen:
            self._seen, self._since_s = record, now_s
        self._since_s = min(self._since_s, now_s - unchanged_s)

    @property
    def unchanged_s(self) -> float:
        return self._clock() - self._since_s

    @property
    def expired(self) -> bool:
        """Has its holder stopped for certain, whoever that is?"""
        return self._seen is not None and self.unchanged_s > self._seen.duration_s * (1 + MARGIN)

    @property
    def free(self) -> bool:
        return self._seen is None or self._seen.released or self.expired
