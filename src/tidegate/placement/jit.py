"""One way to compile a numeric kernel: cached on disk, free of the interpreter lock, typed for its callers."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` on first use; inputs are validated to be finite, so sums may be reordered (SIMD)."""
    return cast(F, numba.njit(cache=True, fastmath=True, nogil=True)(function))


def inlined(function: F) -> F:
    """A kernel small enough to be copied into the loops that call it."""
    return cast(F, numba.njit(cache=True, fastmath=True, nogil=True, inline="always")(function))


@inlined
def draw(state: NDArray[np.uint64]) -> float:
    """Next uniform number in [0, 1) of an xorshift64* stream (Vigna 2016); `state` holds one non-zero word."""
    word = state[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    state[0] = word
    return float((word * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def stream(rng: np.random.Generator) -> NDArray[np.uint64]:
    """A kernel's own random stream, started from the generator that the caller passed in."""
    return rng.integers(1, 2**63, size=1, dtype=np.uint64)
