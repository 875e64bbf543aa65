"""Texts as a pattern and numbers. A reason that differs from the last one in a number costs only that number."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?")
_MARK = "\x1a"  # stands for a number; the digit after it is the number of decimals


def parted(text: str) -> tuple[str, tuple[int, ...]]:
    """The pattern of a text and the numbers in it, as integers in units of their last decimal.

    >>> parted("300 rows/s × 1.35 ms")
    ('\\x1a0 rows/s × \\x1a2 ms', (300, 135))
    >>> joined(*parted("at 007: 0.50"))
    'at 007: 0.50'
    """
    if _MARK in text:
        return text, ()
    numbers: list[int] = []

    def mark(found: re.Match[str]) -> str:
        whole, decimals = found.group(1), found.group(2) or ""
        if len(whole) > 1 and whole[0] == "0":
            return found.group()  # would not read back exactly
        numbers.append(int(whole + decimals))
        return f"{_MARK}{len(decimals)}"

    return _NUMBER.sub(mark, text), tuple(numbers)


def slots(pattern: str) -> int:
    """How many numbers a pattern takes. A text that contained the mark itself takes none."""
    return len(_SLOT.findall(pattern))


_SLOT = re.compile(_MARK + r"([0-9])")


def joined(pattern: str, numbers: tuple[int, ...]) -> str:
    """The original text."""
    if not numbers:
        return pattern
    left = iter(numbers)

    def fill(found: re.Match[str]) -> str:
        decimals = int(found.group(1))
        digits = str(next(left)).zfill(decimals + 1)
        return digits if not decimals else f"{digits[:-decimals]}.{digits[-decimals:]}"

    return _SLOT.sub(fill, pattern)
