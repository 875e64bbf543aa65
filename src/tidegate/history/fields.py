"""Reads fields of untrusted JSON. A value of the wrong type counts as unknown and is never an error."""

from __future__ import annotations

from math import isfinite
from typing import Any


def number(value: Any) -> float | None:
    """Return a finite number, even if written as text; None for anything else ("NaN", "Infinity", null, lists …).

    >>> number("0.5"), number(3), number("Infinity"), number(None), number(True), number([1])
    (0.5, 3.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def amount(value: Any) -> float | None:
    """Return a non-negative finite number. In many reports −1 means "unknown"."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def whole(value: Any) -> int | None:
    """Return a non-negative integer that fits 63 bits."""
    found = amount(value)
    return int(found) if found is not None and found < 2**62 else None


def section(value: Any) -> dict[str, Any]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Return a non-empty string, or None."""
    return value if isinstance(value, str) and value else None


def seconds(milliseconds: Any) -> float | None:
    """Convert milliseconds to seconds."""
    found = amount(milliseconds)
    return None if found is None else found / 1000
