"""Trees of plain values turned into columns, path by path."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.control.journal.bitpacking import Sink
from tidegate.control.journal.kinds import (
    DECIMAL,
    FALSE,
    INTEGER,
    LARGE,
    NULL,
    PATTERN,
    POWERS,
    RAW,
    SAME,
    SHAPES,
    TEXT,
    TRUE,
    Integers,
    write_kinds,
)
from tidegate.control.journal.prediction import NumberColumn
from tidegate.control.journal.templates import parted

_EXACT = float(1 << 53)
_FEW_PATTERNS = 4  # per node; more pay off only if they repeat


class Node:
    """The values seen at one path."""

    __slots__ = ("children", "floats", "integers", "kinds", "large", "last", "rows", "texts")

    def __init__(self) -> None:
        self.children: dict[str | int, Node] = {}
        self.rows: list[int] = []
        self.kinds: list[int] = []
        self.last: Any = None
        self.integers: list[int] = []
        self.floats: list[float] = []
        self.large: list[int] = []
        self.texts: list[str] = []


class Numbered:
    """A table of texts or shapes, numbered in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def take_in(node: Node, value: Any, row: int, shapes: Numbered) -> None:
    node.rows.append(row)
    kinds = node.kinds
    if isinstance(value, dict):
        if _same(node.last, value):
            kinds.append(SAME)
            return
        node.last = value
        kinds.append(SHAPES + shapes.number(tuple(value)))
        for key, inner in value.items():
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = Node()
            take_in(child, inner, row, shapes)
    elif isinstance(value, list):
        if _same(node.last, value):
            kinds.append(SAME)
            return
        node.last = value
        kinds.append(SHAPES + shapes.number(len(value)))
        for place, inner in enumerate(value):
            child = node.children.get(place)
            if child is None:
                child = node.children[place] = Node()
            take_in(child, inner, row, shapes)
    elif value is None:
        kinds.append(NULL)
    elif isinstance(value, bool):
        kinds.append(TRUE if value else FALSE)
    elif isinstance(value, int):
        if -_EXACT < value < _EXACT:
            kinds.append(INTEGER)
            node.integers.append(value)
        else:
            kinds.append(LARGE)
            node.large.append(value)
    elif isinstance(value, float):
        kinds.append(DECIMAL)
        node.floats.append(value)
    elif isinstance(value, str):
        kinds.append(TEXT)
        node.texts.append(value)
    else:
        raise TypeError(f"a journal stores plain values only, not {type(value).__name__}")


def _same(last: Any, value: Any) -> bool:
    """Equal in value and in all types: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return last is not None and bool(last == value) and repr(last) == repr(value)


def write_node(node: Node, columns: list[NumberColumn], words: Numbered, meta: Sink, raw: Sink) -> None:
    kinds = np.array(node.kinds, np.int64)
    rows = np.array(node.rows, np.int64)
    decimals = _settle_floats(node, kinds, raw)
    patterns = _settle_texts(node, kinds)
    write_kinds(kinds, meta)
    if node.integers:
        columns.append(NumberColumn(rows[kinds == INTEGER], np.array(node.integers, np.int64)))
    if decimals is not None:
        power, whole = decimals
        meta.count(power)
        columns.append(NumberColumn(rows[kinds == DECIMAL], whole))
    for value in node.large:
        raw.number(value)
    if patterns is not None:
        _write_patterns(patterns, rows[kinds == PATTERN], columns, words, meta)
    elif node.texts:
        numbers = np.array([words.number(text) for text in node.texts], np.int64)
        columns.append(NumberColumn(rows[kinds == TEXT], numbers))
    for child in node.children.values():
        write_node(child, columns, words, meta, raw)


def _settle_floats(node: Node, kinds: Integers, raw: Sink) -> tuple[int, Integers] | None:
    """Floats as integers, scaled by the smallest power of ten that restores all of them; the rest keep 64 bits."""
    if not node.floats:
        return None
    values = np.array(node.floats, np.float64)
    needed = np.full(len(values), -1, np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals, power in enumerate(POWERS):
            whole = np.rint(values * power)
            fits = (needed < 0) & (np.abs(whole) < _EXACT) & (whole / power == values)
            needed[fits] = decimals
        needed[(values == 0) & np.signbit(values)] = -1
        power_of_all = int(needed.max())
        if power_of_all >= 0:  # with many decimals, large values may not fit
            whole = np.rint(values * POWERS[power_of_all])
            fits = (np.abs(whole) < _EXACT) & (whole / POWERS[power_of_all] == values) & (needed >= 0)
            needed[~fits] = -1
    odd = needed < 0
    for value in values[odd].view(np.uint64).tolist():
        raw.data += value.to_bytes(8, "big")
    places = np.flatnonzero(kinds == DECIMAL)
    kinds[places[odd]] = RAW
    if odd.all():
        return None
    return power_of_all, np.rint(values[~odd] * POWERS[power_of_all]).astype(np.int64)


def _settle_texts(node: Node, kinds: Integers) -> list[tuple[str, tuple[int, ...]]] | None:
    """Patterns and numbers, if patterns repeat."""
    if not node.texts or len(set(node.texts)) <= _FEW_PATTERNS:
        return None
    found = [parted(text) for text in node.texts]
    different = len({pattern for pattern, _ in found})
    if different > max(_FEW_PATTERNS, len(set(node.texts)) // 3):
        return None
    kinds[kinds == TEXT] = PATTERN
    return found


def _write_patterns(
    found: list[tuple[str, tuple[int, ...]]], rows: Integers, columns: list[NumberColumn], words: Numbered, meta: Sink
) -> None:
    """The index of the pattern, and one column for every number of every pattern."""
    own: dict[tuple[str, int], list[int]] = {}
    for place, (pattern, numbers) in enumerate(found):
        own.setdefault((pattern, len(numbers)), []).append(place)
    meta.count(len(own))
    for pattern, slots in own:
        meta.count(words.number(pattern))
        meta.count(slots)
    order = {key: number for number, key in enumerate(own)}
    write_kinds(np.array([order[pattern, len(numbers)] for pattern, numbers in found], np.int64), meta)
    for (_, slots), places in own.items():
        for slot in range(slots):
            values = np.array([found[place][1][slot] for place in places], np.int64)
            columns.append(NumberColumn(rows[places], values))
