"""Columns turned back into the trees they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate.control.journal.bitpacking import Source
from tidegate.control.journal.kinds import (
    DECIMAL,
    FIXED,
    INTEGER,
    LARGE,
    PATTERN,
    POWERS,
    RAW,
    SAME,
    SHAPES,
    TEXT,
    Integers,
    Shape,
    read_kinds,
)
from tidegate.control.journal.templates import joined


class Rebuilt:
    """One node; returns its values in the order in which they were recorded."""

    __slots__ = ("_decimals", "_kinds", "_last", "_shapes", "_values", "_words", "children", "large", "parts", "raw")

    def __init__(self, kinds: list[int], shapes: list[Shape], words: list[str]) -> None:
        self._kinds = iter(kinds)
        self._shapes = shapes
        self._words = words
        self._last: Any = None
        self._values: dict[int, Any] = {}
        self.children: dict[str | int | None, Rebuilt | Nothing] = {}
        self.parts: dict[int, Any] = {}
        """For every kind of value, where to find it once the columns are read."""
        self.raw: list[float] = []
        self.large: list[int] = []

    def fill(self, columns: Sequence[Integers]) -> None:
        parts = self.parts
        if INTEGER in parts:
            self._values[INTEGER] = iter(columns[parts[INTEGER]].tolist())
        if DECIMAL in parts:
            place, decimals = parts[DECIMAL]
            power = POWERS[decimals]
            self._values[DECIMAL] = iter([value / power for value in columns[place].tolist()])
        if TEXT in parts:
            self._values[TEXT] = iter([self._words[number] for number in columns[parts[TEXT]].tolist()])
        if PATTERN in parts:
            self._values[PATTERN] = iter(_texts(parts[PATTERN], columns, self._words))
        self._values[RAW] = iter(self.raw)
        self._values[LARGE] = iter(self.large)
        for child in self.children.values():
            child.fill(columns)

    def next(self) -> Any:
        kind = next(self._kinds)
        if kind >= SHAPES:
            shape = self._shapes[kind - SHAPES]
            children = self.children
            if isinstance(shape, int):
                self._last = [children[place].next() for place in range(shape)]
            else:
                self._last = {key: children[key].next() for key in shape}
            return self._last
        if kind == SAME:
            return self._last
        if kind in FIXED:
            return FIXED[kind]
        return next(self._values[kind])


class Nothing:
    """Placeholder for a node that was not requested."""

    def fill(self, columns: Sequence[Integers]) -> None:
        """Nothing to fill."""

    def next(self) -> None:
        return None


def read_node(
    rows: Integers, shapes: list[Shape], words: list[str], meta: Source, raw: Source, plan: list[Integers]
) -> Rebuilt:
    kinds = read_kinds(len(rows), meta)
    node = Rebuilt(kinds.tolist(), shapes, words)
    node.raw = [_float(raw.take(8)) for _ in range(int((kinds == RAW).sum()))]
    if (kinds == INTEGER).any():
        node.parts[INTEGER] = len(plan)
        plan.append(rows[kinds == INTEGER])
    if (kinds == DECIMAL).any():
        node.parts[DECIMAL] = (len(plan), meta.count())
        plan.append(rows[kinds == DECIMAL])
    node.large = [raw.number() for _ in range(int((kinds == LARGE).sum()))]
    if (kinds == PATTERN).any():
        node.parts[PATTERN] = _read_patterns(rows[kinds == PATTERN], meta, plan)
    elif (kinds == TEXT).any():
        node.parts[TEXT] = len(plan)
        plan.append(rows[kinds == TEXT])
    for key, inside in _inside(rows, kinds, shapes):
        node.children[key] = read_node(inside, shapes, words, meta, raw, plan)
    return node


def _inside(rows: Integers, kinds: Integers, shapes: list[Shape]) -> list[tuple[str | int, Integers]]:
    """The children of a node in order of appearance, and the steps at which each is present."""
    first: dict[str | int, list[int]] = {}
    seen, at = np.unique(kinds, return_index=True)
    for kind in seen[np.argsort(at)].tolist():
        if kind >= SHAPES:
            shape = shapes[kind - SHAPES]
            for key in range(shape) if isinstance(shape, int) else shape:
                first.setdefault(key, []).append(kind)
    return [(key, rows[np.isin(kinds, having)]) for key, having in first.items()]


def _read_patterns(rows: Integers, meta: Source, plan: list[Integers]) -> Any:
    own = [(meta.count(), meta.count()) for _ in range(meta.count())]
    which = read_kinds(len(rows), meta)
    places = []
    for number, (_, slots) in enumerate(own):
        places.append(range(len(plan), len(plan) + slots))
        plan.extend([rows[which == number]] * slots)
    return own, which.tolist(), places


def _texts(part: Any, columns: Sequence[Integers], words: list[str]) -> list[str]:
    own, which, places = part
    numbers = [zip(*(columns[place].tolist() for place in of), strict=True) for of in places]
    return [joined(words[own[one][0]], next(numbers[one]) if own[one][1] else ()) for one in which]


def _float(data: bytes) -> float:
    return float(np.frombuffer(data, ">f8")[0])
