"""Integers as bytes: variable-length numbers for single values, split bits for columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_ESCAPE = 255  # a quotient that does not fit into a byte follows in full


class Sink:
    """Collects variable-length numbers, seven bits per byte (LEB128). Negative numbers are zigzag-encoded."""

    def __init__(self) -> None:
        self.data = bytearray()

    def count(self, value: int) -> None:
        """A non-negative number."""
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def number(self, value: int) -> None:
        self.count(value << 1 if value >= 0 else ~(value << 1))

    def numbers(self, values: Iterable[int]) -> None:
        for value in values:
            self.number(value)

    def text(self, value: str) -> None:
        body = value.encode("utf-8", "surrogatepass")
        self.count(len(body))
        self.data += body


class Source:
    """Reads what a `Sink` collected.

    >>> sink = Sink()
    >>> sink.number(-300), sink.text("words")
    (None, None)
    >>> source = Source(bytes(sink.data))
    >>> source.number(), source.text()
    (-300, 'words')
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def count(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def number(self) -> int:
        value = self.count()
        return value >> 1 if not value & 1 else ~(value >> 1)

    def text(self) -> str:
        return self.take(self.count()).decode("utf-8", "surrogatepass")

    def rest(self) -> bytes:
        return self._data[self._at :]

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


class Split:
    """Columns of residuals. Noisy low bits are stored as they are; quotients are stored apart, to be compressed.

    After Rice (1979): a value is `quotient · 2^k + low bits`, with k near the logarithm of the column's mean. This
    gives the quotients of all columns nearly the same distribution, whatever their scales. The quotients of columns
    without low bits are kept apart from the others, because they contain runs of zeros.
    """

    def __init__(self) -> None:
        self._bits: list[npt.NDArray[np.uint8]] = []
        self._quotients: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._large = Sink()

    def add(self, residuals: Numbers) -> int:
        """Append a column and return its k, which is needed to read it."""
        values = zigzag(residuals)
        k = low_bits(values)
        if k:
            low = values & np.uint64((1 << k) - 1)
            shifts = np.arange(k - 1, -1, -1, dtype=np.uint64)
            self._bits.append(((low[:, None] >> shifts) & np.uint64(1)).astype(np.uint8).ravel())
        quotients = values >> np.uint64(k)
        self._quotients[k > 0].extend(np.minimum(quotients, np.uint64(_ESCAPE)).astype(np.uint8).tobytes())
        for large in quotients[quotients >= _ESCAPE].tolist():
            self._large.count(large)
        return k

    def bits(self) -> bytes:
        return np.packbits(np.concatenate(self._bits)).tobytes() if self._bits else b""

    def pools(self) -> tuple[bytes, bytes, bytes]:
        return bytes(self._quotients[0]), bytes(self._quotients[1]), bytes(self._large.data)


class Joined:
    """Reads columns in the order in which they were added to a `Split`.

    >>> split = Split()
    >>> column = np.array([3, -700, 70_000, 0])
    >>> k = split.add(column)
    >>> Joined(split.bits(), *split.pools()).take(4, k).tolist()
    [3, -700, 70000, 0]
    """

    def __init__(self, bits: bytes, plain: bytes, noisy: bytes, large: bytes) -> None:
        self._bits = np.unpackbits(np.frombuffer(bits, np.uint8))
        self._bit = 0
        self._quotients = (np.frombuffer(plain, np.uint8), np.frombuffer(noisy, np.uint8))
        self._at = [0, 0]
        self._large = Source(large)

    def take(self, count: int, k: int) -> Numbers:
        pool = int(k > 0)
        at = self._at[pool]
        self._at[pool] += count
        values = self._quotients[pool][at : at + count].astype(np.uint64)
        for index in np.flatnonzero(values == _ESCAPE).tolist():
            values[index] = self._large.count()
        if k:
            bits = self._bits[self._bit : self._bit + count * k].reshape(count, k).astype(np.uint64)
            self._bit += count * k
            weights = np.uint64(1) << np.arange(k - 1, -1, -1, dtype=np.uint64)
            values = (values << np.uint64(k)) | (bits @ weights)
        return unzigzag(values)


def zigzag(values: Numbers) -> npt.NDArray[np.uint64]:
    """0, −1, 1, −2, 2 … as 0, 1, 2, 3, 4 …"""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def unzigzag(values: npt.NDArray[np.uint64]) -> Numbers:
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def low_bits(values: npt.NDArray[np.uint64]) -> int:
    """The number of low bits of a column that are noise: those below its mean, less one."""
    mean = float(values.mean(dtype=np.float64)) if len(values) else 0.0
    return max(0, int(np.log2(mean)) - 1) if mean > 4 else 0
