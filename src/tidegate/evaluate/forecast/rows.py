"""Tables whose rows are streams and whose columns have names: gathered for a step, worked on, and written back.

A step works on a block: the columns of those streams that have a new sample, turned so that each column is contiguous.
One gather and one scatter serve all of a bank's small numbers, and saving a bank is saving a few arrays.
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
    """The columns of a table, each a number or an array of numbers per stream, and what they are at first.

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
        """Where a column is in the block, and the shape of what it holds where that is more than a vector."""
        at = 0
        for value in first.values():
            shape, size = np.shape(value), prod(np.shape(value))
            self._places.append((slice(at, at + size) if shape else at, shape if len(shape) > 1 else None))
            at += size
        self.width = at

    def empty(self, streams: int) -> Floats:
        return np.tile(self._first, (streams, 1))

    def view(self, block: Floats) -> Columns:
        """The columns of a block (columns × streams) by name; whoever writes to them writes to the block."""
        return self._columns(
            *[
                block[place] if shape is None else block[place].reshape(*shape, block.shape[1])
                for place, shape in self._places
            ]
        )
