"""A run of steps as one compact block: trees of plain values, turned into columns, predicted and compressed.

The trees can hold anything that JSON can. This module knows no domain types: a new field becomes a new column, and a
new type becomes another shape. Each node is identified by its path. It has a sequence of kinds (one for each step in
which it is present), and columns for its numbers and texts:

- a container equal to the previous one at the same path is a single mark, whatever its content;
- numbers with few decimals are stored as integers in units of their last decimal, if they read back exactly; other
  numbers keep 64 bits;
- texts are stored as patterns and numbers (see `templates`);
- all integers go through `prediction`.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate.control.journal.bitpacking import Joined, Sink, Source, Split
from tidegate.control.journal.flatten import Node, Numbered, take_in, write_node
from tidegate.control.journal.kinds import Integers, Shape
from tidegate.control.journal.prediction import NumberColumn, read_columns, write_columns
from tidegate.control.journal.rebuild import Nothing, read_node

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0, "dict_size": 1 << 20}]
_FORMAT = 1
_PARTS = 7


def write_block(trees: Sequence[Any]) -> bytes:
    """
    >>> trees = [{"step": step, "text": f"load {step / 4:.2f}"} for step in range(1000)]
    >>> len(write_block(trees)) < 150, read_block(write_block(trees)) == trees
    (True, True)
    """
    if not trees:
        return b""
    shapes, root = Numbered(), Node()
    for row, tree in enumerate(trees):
        take_in(root, tree, row, shapes)
    words, meta, split, raw = Numbered(), Sink(), Split(), Sink()
    columns: list[NumberColumn] = []
    meta.count(len(trees))
    write_node(root, columns, words, meta, raw)
    write_columns(columns, len(trees), meta, split)
    head = Sink()
    head.count(len(shapes.numbers))
    for shape in shapes.numbers:
        head.count(shape << 1 if isinstance(shape, int) else len(shape) << 1 | 1)
        for key in shape if isinstance(shape, tuple) else ():
            head.count(words.number(key))
    table = Sink()
    table.count(len(words.numbers))
    for word in words.numbers:
        table.text(word)
    bits = split.bits()
    parts = [bytes(table.data), bytes(head.data), bytes(meta.data), bytes(raw.data), *split.pools()]
    sizes = Sink()
    for part in parts:
        sizes.count(len(part))
    body = lzma.compress(bytes(sizes.data) + b"".join(parts), format=lzma.FORMAT_RAW, filters=_FILTERS)
    front = Sink()
    front.count(_FORMAT)
    front.count(len(bits))
    return bytes(front.data) + bits + body


def read_block(data: bytes, leave_out: str | None = None) -> list[Any]:
    """The trees that were written. Equal consecutive containers are the same object.

    The value under the key `leave_out` is not built. Where it is large, this saves most of the time.

    >>> read_block(write_block([{"seen": [1, 2, 3], "done": 4}]), leave_out="seen")
    [{'seen': None, 'done': 4}]
    """
    if not data:
        return []
    front = Source(data)
    if front.count() != _FORMAT:
        raise ValueError("the block has another format")
    bits = front.take(front.count())
    body = Source(lzma.decompress(front.rest(), format=lzma.FORMAT_RAW, filters=_FILTERS))
    sizes = [body.count() for _ in range(_PARTS)]
    table, head, meta, raw, plain, noisy, large = (Source(body.take(size)) for size in sizes)
    words = [table.text() for _ in range(table.count())]
    shapes: list[Shape] = []
    for _ in range(head.count()):
        size = head.count()
        shapes.append(tuple(words[head.count()] for _ in range(size >> 1)) if size & 1 else size >> 1)
    steps = meta.count()
    plan: list[Integers] = []
    root = read_node(np.arange(steps), shapes, words, meta, raw, plan)
    columns = read_columns(plan, steps, meta, Joined(bits, plain.rest(), noisy.rest(), large.rest()))
    if leave_out in root.children:
        root.children[leave_out] = Nothing()
    root.fill(columns)
    return [root.next() for _ in range(steps)]
