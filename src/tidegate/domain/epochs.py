"""Lease epochs as file names. A run checks them to find out whether a newer run has replaced it."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.domain.errors import TidegateError

_SUFFIX = ".lease"


class StaleEpoch(TidegateError):
    """A newer run of the application holds the lease. This run must not commit anything."""


def lease_name(epoch: int) -> str:
    """
    >>> lease_name(3)
    '0000000003.lease'
    """
    return f"{epoch:010d}{_SUFFIX}"


def epochs_of(names: Iterable[str]) -> list[int]:
    """Return the epochs found in the file names of a lease folder, oldest first.

    >>> epochs_of(["0000000002.lease", "0000000001.lease", "0000000002.lease.5f.draft"])
    [1, 2]
    """
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def check_epoch(names: Iterable[str], epoch: int) -> None:
    """Raise `StaleEpoch` unless `epoch` is the newest epoch in a lease folder with these file names."""
    newest = max(epochs_of(names), default=None)
    if newest != epoch:
        found = "is gone" if newest is None else f"is in epoch {newest}"
        raise StaleEpoch(f"fenced: this run has epoch {epoch}, and the lease {found}; nothing more is committed")
