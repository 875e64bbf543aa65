"""Parts of newer standard libraries, for Python 3.10."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from enum import Enum

from typing_extensions import Self

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:

    class StrEnum(str, Enum):
        """An enumeration whose members are strings."""

        __str__ = str.__str__
        __format__ = str.__format__


__all__ = ["UTC", "Self", "StrEnum", "iso_time"]

UTC = timezone.utc


def iso_time(text: str) -> datetime:
    """Parse an ISO 8601 time; a trailing Z is UTC.

    >>> iso_time("2024-07-01T12:00:00.5Z").isoformat(), iso_time("2024-07-01 12:00").isoformat()
    ('2024-07-01T12:00:00.500000+00:00', '2024-07-01T12:00:00')
    """
    if sys.version_info >= (3, 11):
        return datetime.fromisoformat(text)
    return _old_iso_time(text)


def _old_iso_time(text: str) -> datetime:
    """Parse for Python 3.10, which only reads the output of `isoformat`: no Z, three or six digits of a second.

    >>> _old_iso_time("2024-07-01T12:00:00.5Z").microsecond
    500000
    """
    text = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
    whole, point, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    if point and digits:
        text = f"{whole}.{rest[: min(digits, 6)]:0<6}{rest[digits:]}"
    return datetime.fromisoformat(text)
