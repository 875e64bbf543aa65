"""Tables with streams as rows and named columns: gathered for a step, updated, and written back.

A step works on a block: the columns of the streams with a new sample, transposed so that each column is contiguous. One
gather and one scatter cover all of a bank's small numbers, and a bank is saved as a few arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
State: TypeAlias = dict[str, Array]

Columns = TypeVar("Columns")


class Layout(Generic[Columns]):
    """The columns of a table, each a number or an array per stream, and their initial values.

    >>> from typing import NamedTuple
    >>> class Level(NamedTuple):
    ...     age: Floats
    ...     recent: Floats
    >>> layout = Layout(Level, age=0.0, recent=np.full(3, np.nan))
    >>> block = layout.empty(streams=2).T
    >>> layout.view(block).recent.shape
    (3, 2)
    """

    def __init__(self, columns: Callable[..., Columns], **first: float | Floats) -> None:
        self._columns = columns
        self._first = np.concatenate([np.ravel(value) for value in first.values()])
        self._places: list[tuple[int | slice, tuple[int, ...] | None]] = []
        """Position of each column in the block, and its shape if it is more than a vector."""
        at = 0
        for value in first.values():
            shape, size = np.shape(value), prod(np.shape(value))
            self._places.append((slice(at, at + size) if shape else at, shape if len(shape) > 1 else None))
            at += size
        self.width = at

    def empty(self, streams: int) -> Floats:
        return np.tile(self._first, (streams, 1))

    def view(self, block: Floats) -> Columns:
        """The columns of a block (columns × streams) by name. Writing to them writes to the block."""
        return self._columns(
            *[
                block[place] if shape is None else block[place].reshape(*shape, block.shape[1])
                for place, shape in self._places
            ]
        )
