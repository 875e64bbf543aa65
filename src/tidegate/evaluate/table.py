"""Arrays over applications that grow and shrink together: one column per remembered quantity.

A step must process thousands of applications in milliseconds. Objects with attributes are too slow for that; columns
are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_FIRST_ROWS = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A quantity: its initial value, and how many values are kept."""

    start: float = 0.0
    width: int | None = None
    """None: one value; otherwise a ring or a vector of this many."""


class Table:
    """Columns by name, rows by application.

    >>> table = Table({"rate": Column(), "cost": Column(), "ring": Column(np.nan, width=2)})
    >>> rows = table.rows_of(["words", "clicks"])
    >>> rows.tolist(), table["rate"].tolist()
    ([0, 1], [0.0, 0.0])
    >>> table["rate"][1] = 7.0
    >>> both = table.span("rate", "cost")
    >>> table.gather(both, rows).tolist()
    [[0.0, 7.0], [0.0, 0.0]]
    >>> table.keep({"clicks"})
    >>> table.rows_of(["clicks", "orders"]).tolist(), table["rate"].tolist(), table["ring"].shape
    ([0, 1], [7.0, 0.0], (2, 2))
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        self._names: list[str] = []
        self._rows: dict[str, int] = {}
        plain = [name for name, column in self._columns.items() if column.width is None]
        self._number = {name: number for number, name in enumerate(plain)}
        # Plain numbers share one array, column by column, so that adjacent columns are gathered together.
        self._first = np.array([[self._columns[name].start] for name in plain]).reshape(-1, 1)
        self._numbers = np.repeat(self._first, _FIRST_ROWS, axis=1)
        self._rings = {name: _ring(column, _FIRST_ROWS) for name, column in self._columns.items() if column.width}
        self._views: dict[str, Floats] = {}
        self._asked: tuple[Sequence[str], Ints] | None = None
        self._everyone: Ints | None = None
        self._show()

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, column: str) -> Floats:
        """The column as a view; for a ring, one row per element. Writing to it changes the table."""
        return self._views[column]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def row(self, name: str) -> int | None:
        return self._rows.get(name)

    def rows_of(self, names: Sequence[str]) -> Ints:
        """The rows of these applications, in their order. New ones get a row."""
        if self._asked is not None and (self._asked[0] is names or self._asked[0] == names):
            return self._asked[1]
        known = self._rows
        new = [name for name in dict.fromkeys(names) if name not in known]
        if new:
            self._grow(len(self._names) + len(new))
            for name in new:
                known[name] = len(self._names)
                self._names.append(name)
            self._show()
        rows = np.fromiter((known[name] for name in names), np.int64, len(names))
        self._asked = (names, rows)
        self._everyone = rows if np.array_equal(rows, np.arange(len(self))) else None
        return rows

    def holds_all(self, rows: Ints) -> bool:
        """Are these all rows, in order? Then a column needs no gathering."""
        return rows is self._everyone

    def span(self, first: str, last: str) -> slice:
        """The columns from `first` to `last`, in the order of their definition. None of them may be a ring."""
        return slice(self._number[first], self._number[last] + 1)

    def gather(self, span: slice, rows: Ints) -> Floats:
        """Columns × rows. If `rows` are all rows in order, this is the table itself, without a copy."""
        if rows is self._everyone:
            return self._numbers[span, : len(self._names)]
        return self._numbers[span].take(rows, axis=1)

    def scatter(self, span: slice, rows: Ints, block: Floats) -> None:
        """Write back gathered and changed values."""
        if rows is not self._everyone:
            self._numbers[span, rows] = block

    def cells(self, first: str, last: str, row: int) -> list[float]:
        """The columns from `first` to `last` of one application, as numbers."""
        return self._numbers[self._number[first] : self._number[last] + 1, row].tolist()  # type: ignore[no-any-return]

    def put(self, first: str, last: str, row: int, cells: Sequence[float]) -> None:
        """Write these columns of one application."""
        self._numbers[self._number[first] : self._number[last] + 1, row] = cells

    def keep(self, names: Collection[str]) -> None:
        """Drop all applications except these."""
        kept = [row for row, name in enumerate(self._names) if name in names]
        if len(kept) == len(self._names):
            return
        self._numbers = self._numbers[:, kept]
        self._rings = {name: ring[:, kept] for name, ring in self._rings.items()}
        self._names = [self._names[row] for row in kept]
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._show()

    def state(self) -> dict[str, Any]:
        """Everything as names and arrays, for saving."""
        return {"names": list(self._names), "cells": {name: self[name].T.copy() for name in self._columns}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned. Columns missing there keep their initial values."""
        self._names, self._rows = [], {}
        self._show()
        self.rows_of(list(state["names"]))
        for name, cells in state["cells"].items():
            if name in self._columns and np.shape(cells) == self[name].T.shape:
                self[name].T[...] = cells

    def _grow(self, rows: int) -> None:
        room = self._numbers.shape[1]
        if room >= rows:
            return
        more = max(rows, 2 * room) - room
        self._numbers = np.concatenate([self._numbers, np.repeat(self._first, more, axis=1)], axis=1)
        self._rings = {
            name: np.concatenate([ring, _ring(self._columns[name], more)], axis=1) for name, ring in self._rings.items()
        }

    def _show(self) -> None:
        """Create the views again after the rows have changed. Cached, because every step uses dozens of them."""
        rows = len(self._names)
        self._views = {name: self._numbers[number, :rows] for name, number in self._number.items()}
        self._views |= {name: ring[:, :rows] for name, ring in self._rings.items()}
        self._asked = self._everyone = None


def _ring(column: Column, rows: int) -> Floats:
    return np.full((column.width or 0, rows), column.start, dtype=np.float64)
