"""Opens event logs as lines of text, for all codecs that Spark writes.

zstd, gzip and bz2 are standard streams. Spark's lz4 and snappy are not: they come from Java stream classes
(LZ4BlockOutputStream of lz4-java, SnappyOutputStream of snappy-java) with their own framing around raw blocks.
pyarrow does not read that framing, but the two small readers below do. A truncated file yields its complete blocks.

Logs may be malicious: decompression stops beyond the ratio that event logs reach, and lines longer than `MOST_LINE` are
not kept in memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from tidegate.history.notes import Notes

_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")  # magic, token, compressed, decompressed, checksum
_LZ4_RAW, _LZ4_FRAME = 0x10, b"\x04\x22\x4d\x18"
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_MOST_BLOCK = 1 << 25  # lz4-java's own limit; a block that claims to be larger is damaged
MOST_LINE = 1 << 24
"""Maximum bytes of one event. Spark's longest events contain a plan of some megabytes."""
_MOST_FOLD = 200
_FOLD_SLACK = 1 << 24
"""Event logs compress by a factor of 10 to 60, a file of zeros by 1000. The slack is for small files."""


class Bomb(OSError):
    """A file that inflates to more than an event log can."""


def read_lines(path: Path, notes: Notes) -> Iterator[str]:
    """Yield the lines of a log. If the file is truncated or damaged, the rest is skipped with a note."""
    name = path.name.removesuffix(".inprogress").removesuffix(".compact")
    suffix = name.rpartition(".")[2].lower()
    if suffix == "lzf":
        notes.add(f"{path.name}: lzf is not supported; set spark.io.compression.codec to zstd, lz4 or snappy")
        return
    try:
        with path.open("rb") as raw:
            opener = _OPENERS.get(suffix)
            most = None if opener is None else _MOST_FOLD * path.stat().st_size + _FOLD_SLACK
            yield from _lines(raw if opener is None else opener(raw), most, notes)
    except Bomb:
        notes.add(f"{path.name}: inflates to more than {_MOST_FOLD} times its size, which no event log does; skipped")
    except _damage() as error:
        notes.add(f"{path.name}: is truncated or damaged ({type(error).__name__}); read up to that point")


def _damage() -> tuple[type[Exception], ...]:
    """Return the exceptions that a truncated or damaged file raises. Called only after an exception."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        return EOFError, OSError, zlib.error
    return EOFError, OSError, zlib.error, pa.ArrowException


def _lines(stream: IO[bytes], most_bytes: int | None, notes: Notes) -> Iterator[str]:
    inflated, whole = 0, True
    while line := stream.readline(MOST_LINE):
        inflated += len(line)
        if most_bytes is not None and inflated > most_bytes:
            raise Bomb
        began, whole = whole, line.endswith(b"\n")
        if began and (whole or len(line) < MOST_LINE):
            yield line.decode("utf-8", errors="replace")
        elif began:  # too long: skip the whole line
            notes.lines += 1
            notes.unreadable_lines += 1


def _gzip(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw))


def _bz2(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], bz2.BZ2File(raw))


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    return _buffered(_arrow_chunks(raw, "zstd"))


def _lz4(raw: IO[bytes]) -> IO[bytes]:
    start = raw.read(4)
    raw.seek(0)
    return _buffered(_arrow_chunks(raw, "lz4") if start == _LZ4_FRAME else lz4_blocks(raw))


def _snappy(raw: IO[bytes]) -> IO[bytes]:
    return _buffered(snappy_blocks(raw))


_OPENERS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    "gz": _gzip,
    "gzip": _gzip,
    "bz2": _bz2,
    "zstd": _zstd,
    "zst": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
}


def _arrow_chunks(raw: IO[bytes], codec: str) -> Iterator[bytes]:
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec)
    while chunk := stream.read(1 << 16):
        yield chunk


def lz4_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of lz4-java's LZ4BlockOutputStream. An empty block ends the stream."""
    import pyarrow as pa

    codec = pa.Codec("lz4_raw")
    while header := raw.read(_LZ4_HEADER.size):
        if len(header) < _LZ4_HEADER.size:
            raise EOFError("a block's header is truncated")
        magic, token, compressed, size, _ = _LZ4_HEADER.unpack(header)
        if magic != _LZ4_MAGIC or not 0 <= compressed <= _MOST_BLOCK or not 0 <= size <= _MOST_BLOCK:
            raise OSError("not a block of lz4-java")
        block = _exactly(raw, compressed)
        if size:
            yield block if token & 0xF0 == _LZ4_RAW else codec.decompress(block, size, asbytes=True)


def snappy_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of snappy-java's SnappyOutputStream. The header may recur if streams were concatenated."""
    import pyarrow as pa

    codec = pa.Codec("snappy")
    while start := raw.read(4):
        if start == _SNAPPY_MAGIC[:4]:
            _exactly(raw, 12)  # the rest of the magic, version, lowest compatible version
            continue
        if len(start) < 4:
            raise EOFError("a block's length is truncated")
        length = int.from_bytes(start, "big")
        if not 0 < length <= _MOST_BLOCK:
            raise OSError("not a block of snappy-java")
        block = _exactly(raw, length)
        size = _varint(block)
        if size > _MOST_BLOCK:
            raise OSError("not a block of snappy-java")
        if size:
            yield codec.decompress(block, size, asbytes=True)


def _exactly(raw: IO[bytes], length: int) -> bytes:
    found = raw.read(length)
    if len(found) < length:
        raise EOFError("a block is truncated")
    return found


def _varint(block: bytes) -> int:
    """Read snappy's leading decompressed size: seven bits per byte, lowest first."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise OSError("not a block of snappy-java")


class _Chunks(io.RawIOBase):
    """A readable stream over an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        taken = min(len(buffer), len(self._rest))
        buffer[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


def _buffered(chunks: Iterator[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Chunks(chunks), 1 << 16))
