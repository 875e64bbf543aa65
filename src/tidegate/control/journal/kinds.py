"""The kinds of value that a node of a tree can have at a step, and how a sequence of kinds is stored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.control.journal.bitpacking import Sink, Source

SAME, NULL, FALSE, TRUE, INTEGER, DECIMAL, RAW, PATTERN, TEXT, LARGE, SHAPES = range(11)
"""`SAME` is a container equal to the previous one. Values from `SHAPES` on stand for the shapes of containers."""
FIXED = {NULL: None, FALSE: False, TRUE: True}
MOST_DECIMALS = 9
POWERS = [float(10**decimals) for decimals in range(MOST_DECIMALS + 1)]

Shape = int | tuple[str, ...]
"""The length of a list, or the keys of a mapping."""
Integers = npt.NDArray[np.int64]


def write_kinds(kinds: Integers, meta: Sink) -> None:
    """Write runs of equal kinds."""
    edges = np.flatnonzero(np.diff(kinds)) + 1
    meta.count(len(edges))
    for kind in kinds[np.concatenate(([0], edges))].tolist():
        meta.count(kind)
    for length in np.diff(np.concatenate(([0], edges))).tolist():
        meta.count(length)


def read_kinds(count: int, meta: Source) -> Integers:
    """
    >>> sink = Sink()
    >>> write_kinds(np.array([4, 4, 4, 1, 4]), sink)
    >>> read_kinds(5, Source(bytes(sink.data))).tolist()
    [4, 4, 4, 1, 4]
    """
    edges = meta.count()
    kinds = [meta.count() for _ in range(edges + 1)]
    lengths = [meta.count() for _ in range(edges)]
    return np.repeat(np.array(kinds, np.int64), [*lengths, count - sum(lengths)])
