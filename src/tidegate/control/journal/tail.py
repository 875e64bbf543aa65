"""The newest steps. Each is written at once as a small row: the difference from the previous step.

Deflate computes the difference, with the text of the previous step as its dictionary, so repeated content costs a few
bytes. The first row of a stretch does not depend on any other row.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

_WINDOW = 32_768  # deflate looks back no further
_LARGE = 1 << 20


def packed(text: bytes, base: bytes | None) -> bytes:
    """
    >>> step = b'{"rows": 1000, "busy_s": 1.25, "text": "nothing to do"}'
    >>> len(packed(step, base=step)) < 15
    True
    """
    # The steps of a large fleet have megabytes. The fastest level takes a quarter of the time there.
    level = 6 if len(text) < _LARGE else 1
    coder = zlib.compressobj(level, zlib.DEFLATED, -15, zdict=base[-_WINDOW:] if base else b"")
    return coder.compress(text) + coder.flush()


def unpacked(data: bytes, base: bytes | None) -> bytes:
    """
    >>> unpacked(packed(b"abcabcabd", b"abcabcabc"), b"abcabcabc")
    b'abcabcabd'
    """
    coder = zlib.decompressobj(-15, zdict=base[-_WINDOW:]) if base else zlib.decompressobj(-15)
    return coder.decompress(data) + coder.flush()


def text_of(tree: Any) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def trees_of(rows: Iterable[tuple[int, int | None, bytes]]) -> Iterator[tuple[int, Any]]:
    """Decode rows `(id, id of the base row, body)`, in increasing order, into plain values.

    If two writers alternate, a row's base is not always the row before it.
    """
    texts: dict[int, bytes] = {}
    for number, base, body in rows:
        text = unpacked(body, None if base is None else texts.pop(base))
        texts[number] = text
        yield number, json.loads(text)
