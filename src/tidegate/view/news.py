"""The event stream: what is new in a journal, read once for all viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from tidegate.view.library import Library

_NEWS_EVERY_S = 1.0


class News:
    """Reads news once per second for all viewers of an application together, and only while there are viewers."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._viewers: dict[tuple[str, str], set[asyncio.Queue[bytes]]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._task: asyncio.Task[None] | None = None

    async def follow(self, journal: str, application: str) -> AsyncIterator[bytes]:
        """The stream of one viewer. A slow viewer misses news, and does not delay the others."""
        key, queue = (journal, application), asyncio.Queue[bytes](maxsize=8)
        self._viewers.setdefault(key, set()).add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())
        try:
            yield b"retry: 2000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), 15.0)
                except asyncio.TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._viewers[key].discard(queue)
            if not self._viewers[key]:
                del self._viewers[key]
                self._since.pop(key, None)

    async def _look(self) -> None:
        while self._viewers:
            keys = list(self._viewers)
            for key, text in (await asyncio.wrap_future(self._library.run(self._read, keys))).items():
                for queue in self._viewers.get(key, ()):
                    if not queue.full():
                        queue.put_nowait(text)
            await asyncio.sleep(_NEWS_EVERY_S)

    def _read(self, keys: list[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        library = self._library
        library.poll()
        found: dict[tuple[str, str], bytes] = {}
        for key in keys:
            book = library.books.get(key[0])
            span = book.span_s if book is not None else None
            if book is None or span is None:
                continue
            since_s = self._since.get(key)
            if since_s is not None and span[1] <= since_s and book.indexed >= 1:
                continue
            delta = library.delta(book, key[1], span[1] if since_s is None else since_s)
            self._since[key] = span[1]
            found[key] = b"event: news\ndata: " + json.dumps(delta, allow_nan=False).encode() + b"\n\n"
        return found
